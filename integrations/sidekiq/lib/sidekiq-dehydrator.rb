# frozen_string_literal: true

require "sidekiq/dehydrator"
