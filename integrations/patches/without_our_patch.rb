# frozen_string_literal: true

# The reaper as it is, without what our gem changes in it.
require "sidekiq-dehydrator"
Sidekiq::Dehydrator::UniqueJobs::Reaping.remove_method(:in_sorted_set?)
