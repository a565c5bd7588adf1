# frozen_string_literal: true

# Sidekiq asks for it to count threads. They are not counted here.
