# frozen_string_literal: true

# Sidekiq requires it to count threads. They are not counted here.
