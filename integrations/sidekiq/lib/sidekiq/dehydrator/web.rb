# frozen_string_literal: true

require "sidekiq-dehydrator"
require "sidekiq/web"

module Sidekiq::Dehydrator
  # The tab *Periodic* of Sidekiq's page. The application requires it where it mounts that page.
  module Web
    TAB = { tab: "Periodic", index: "periodic" }.freeze
    TEMPLATE = File.read("#{__dir__}/web.erb")
    BUTTONS = %w[run pause resume remove].freeze

    def self.registered(app)
      app.get("/periodic") { erb(TEMPLATE, locals: { schedules: Schedules.all }) }
      app.post("/periodic") do
        name, button = %w[name button].map { |key| respond_to?(:url_params) ? url_params(key) : params[key] }
        Schedules.public_send(button, name) if BUTTONS.include?(button)
        redirect("#{root_path}periodic")
      end
    end

    def self.install
      return Sidekiq::Web.configure { |config| config.register(self, name: "periodic", **TAB) } if Sidekiq::VERSION.to_i >= 8

      Sidekiq::Web.register(self)
      Sidekiq::Web.tabs[TAB[:tab]] = TAB[:index]
    end
  end
end

Sidekiq::Dehydrator::Web.install
