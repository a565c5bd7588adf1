<?php

declare(strict_types=1);

/** See note.py. */
function note(string $id, float $due): void
{
    static $file = null;
    $started = microtime(true);
    usleep((int) ((float) getenv('BENCH_WORK') * 1e6));
    $file ??= fopen(getenv('BENCH_NOTES').'/'.getmypid(), 'a');
    fwrite($file, sprintf("%s %.6f %.6f\n", $id, $due, $started));
}

/** Yields the id and when it is due. See plan.py. */
function planned(): iterable
{
    foreach (file(getenv('BENCH_PLAN')) as $line) {
        [$id, $due] = explode(' ', trim($line));
        yield $id => (float) $due;
    }
}
