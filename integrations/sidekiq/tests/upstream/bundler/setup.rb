# frozen_string_literal: true

# Replaces Bundler: Sidekiq's tests get the installed libraries, and the gem.
require "logger"
require "active_support/all"

module Bundler
  def self.require(*)
    begin
      Kernel.require "rack/session"
    rescue LoadError
      # Sidekiq 6 needs none.
    end
    Kernel.require "sidekiq"
    Kernel.require "sidekiq-dehydrator"
    Sidekiq::Dehydrator.reliable! if ENV["RELIABLE"]
  end
end

# Nothing would be tested without it.
at_exit { abort "the gem was not there" unless Sidekiq::Client.ancestors.include?(Sidekiq::Dehydrator::Client) }
