# frozen_string_literal: true

require_relative "helper"

# What all packages do alike: integrations/protocol.
class ProtocolTest < Minitest::Test
  VECTORS = JSON.parse(File.read(File.expand_path("../../protocol/vectors.json", __dir__)))
  ERRORS = Sidekiq::Dehydrator::Errors

  # Returns how often a command is sent that always gets this reply.
  def times(reply)
    count = 0
    ERRORS.patient(Struct.new(:close).new) do
      count += 1
      raise ERRORS::COMMAND, reply
    end
  rescue StandardError
    count
  end

  def test_errors_have_their_names
    names = { "QueueFull" => Sidekiq::Dehydrator::Refused, "TooLate" => Sidekiq::Dehydrator::Refused,
              "ModuleMissing" => Sidekiq::Dehydrator::ModuleMissing }
    VECTORS["errors"].each do |reply, name|
      assert_kind_of names.fetch(name, ERRORS::COMMAND), ERRORS.named(ERRORS::COMMAND.new(reply)), reply
    end
  end

  def test_a_module_is_missing_or_too_old_by_its_version
    { "" => "ModuleMissing", "0.0.9" => "ModuleTooOld", "0.1.0" => nil, "0.10.0" => nil, "1.0.0-rc.1" => nil }.each do |version, name|
      info = version.empty? ? "" : "# dehydrator\r\ndehydrator_version:#{version}\r\n"
      error = begin
        ERRORS.check(info)
      rescue StandardError => wrong
        wrong
      end
      assert_equal name, error && error.class.name.split("::").last, version
      assert_includes error.message, version if name
    end
  end

  def test_no_command_is_sent_again_after_an_error_that_is_final
    assert_equal [1], VECTORS["final"].map { |reply| times(reply) }.uniq
    assert_equal %w[NOREPLICAS READONLY UNBLOCKED], VECTORS["passing"].select { |reply| times(reply) == 2 }.map { |it| it.split.first }.sort
  end
end
