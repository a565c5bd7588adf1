# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rubygems/package"
require "rubygems/installer"
require "tmpdir"
require_relative "processes"

# The gem, built and installed with `gem build` and `gem install --local`, without its dependencies.
class PackageTest < Minitest::Test
  HERE = File.expand_path("..", __dir__)

  def installed(folder)
    spec = Gem::Specification.load("#{HERE}/sidekiq-dehydrator.gemspec")
    Gem::DefaultUserInteraction.use_ui(Gem::SilentUI.new) do
      gem = Dir.chdir(HERE) { Gem::Package.build(spec, false, false, "#{folder}/built.gem") }
      options = { install_dir: "#{folder}/gems", force: true, ignore_dependencies: true, document: [] }
      Gem::Installer.at("#{folder}/#{File.basename(gem)}", options).install.full_gem_path
    end
  end

  def test_the_readme_names_all_that_is_touched
    touched = File.read("#{HERE}/README.md")[/^\*\*What it touches\*\*.*?\n\n/m]
    code = Dir["#{HERE}/lib/**/*.rb"].map { |file| File.read(file) }.join
    names = code.scan(/(?:Sidekiq|SidekiqUniqueJobs)::([\w:]+)(?:\.prepend|\.module_exec)/).flatten.map { |name| name.delete_prefix("Orphans::") }.uniq
    assert_operator names.size, :>, 9
    assert_empty names.reject { |name| touched.include?("`#{name}`") }
  end

  def test_what_is_built_can_be_installed_and_required
    Dir.mktmpdir do |folder|
      place = installed(File.realpath(folder))
      files = ["CHANGELOG.md", "README.md"] + Dir["lib/**/*.{rb,erb}", base: HERE]
      assert_equal files.sort, Dir["**/*.*", base: place].sort
      program = "puts $LOADED_FEATURES.grep(%r{sidekiq[-/]dehydrator})"
      said, error, status = Open3.capture3(RUBY, "-W0", "-I", "#{place}/lib", "-r", "sidekiq-dehydrator", "-e", program)
      assert status.success?, error
      assert_equal (files - ["CHANGELOG.md", "README.md", *Dir["lib/**/web.*", base: HERE]]).map { |file| "#{place}/#{file}" }.sort, said.split("\n").sort
    end
  end
end
