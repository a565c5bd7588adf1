# frozen_string_literal: true

Gem::Specification.new do |gem|
  gem.name = "sidekiq-dehydrator"
  gem.version = "0.1.0"
  gem.summary = "Sidekiq's scheduled jobs and retries, in its queues the moment they are due"
  gem.description = "What Sidekiq puts off waits in a dehydrator, a data type of Redis and Valkey, and the server itself " \
                    "pushes it to the queue when it is due. No job waits for a poller."
  gem.authors = ["The Dehydrator authors"]
  gem.email = "authors@dehydrator.invalid"
  gem.homepage = "https://dehydrator.invalid"
  gem.metadata["source_code_uri"] = "https://dehydrator.invalid/source"
  gem.metadata["changelog_uri"] = "https://dehydrator.invalid/source/blob/main/integrations/sidekiq/CHANGELOG.md"
  gem.metadata["rubygems_mfa_required"] = "true"
  gem.license = "BSD-3-Clause"
  gem.files = Dir["lib/**/*.{rb,erb}", "LICENSE", "README.md", "CHANGELOG.md", base: __dir__]
  gem.required_ruby_version = ">= 3.0"
  gem.add_dependency "sidekiq", ">= 6.4", "< 9"
end
