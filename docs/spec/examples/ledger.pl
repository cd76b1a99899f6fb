# Write a ledger that dpaudit verifies, without dpaudit: perl ledger.pl > ledger.jsonl
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use JSON::PP;

# Canonical JSON (RFC 8785) for texts and for numbers of at most 15 digits between 1e-6 and 1e21.
my $json = JSON::PP->new->canonical->utf8;

sub release {
    my ($label, $sigma) = @_;
    return {
        record => 'release', label => $label, count => 1,
        mechanism => {
            kind => 'gaussian', sigma => $sigma,
            sensitivity => { value => 1, norm => 'l2', basis => 'clipped' },
        },
    };
}

my @records = (
    {
        record => 'header', schema => 'dpaudit.ledger/1', algorithm => 'weekly counts', unit => 'person',
        neighbouring => 'add-or-remove-one', claim => { guarantee => { kind => 'zcdp', rho => 0.25 } },
        parameters => {},
    },
    release('visits', 2),
    release('visitors', 2.5),
);
push @records, { record => 'footer', releases => $#records };

my $previous = '';
for my $record (@records) {
    my $text = $json->encode($record);
    $previous = sha256_hex($previous . $text);
    print substr($text, 0, -1), qq(,"hash":"$previous"}\n);
}
