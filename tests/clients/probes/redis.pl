# Redis.pm.

use strict;
use warnings;
use Redis;
use Data::Dumper;

$Data::Dumper::Terse = 1;
$Data::Dumper::Indent = 0;
$| = 1;

my ($mode, $port, @settings) = @ARGV;
my %settings = map { split /=/, $_, 2 } @settings;

my %options = (server => "127.0.0.1:$port");
$options{read_timeout} = $settings{timeout} if $settings{timeout};
my $client = Redis->new(%options);
print "ready $Redis::VERSION\n";
while (my $line = <STDIN>) {
    chomp $line;
    my ($name, @arguments) = split / /, $line;
    # A method whose name contains a dot must be called through a variable.
    my $reply = eval { $client->$name(@arguments) };
    if ($@) {
        my $error = $@ =~ s/\n.*//sr;
        print "error $error\n";
    } else {
        print "ok ", Dumper($reply), "\n";
    }
}
