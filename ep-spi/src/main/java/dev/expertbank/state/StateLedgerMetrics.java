package dev.expertbank.state;

import java.util.Map;

/**
 * What a ledger has counted, in bytes where not said otherwise. These numbers admit nothing: the
 * governor does.
 *
 * @param residentBytes charged now
 * @param peakBytes the most that was ever charged at once
 * @param residentByClass charged now, for every class
 * @param quarantinedBytes of closed charges whose memory could not be freed; still claimed from the
 *     governor
 * @param charges charges granted so far
 * @param releases charges ended so far, by closing or by a failed allocation
 * @param chargeFailures charges that did not fit or could not be allocated
 */
public record StateLedgerMetrics(
    long residentBytes,
    long peakBytes,
    Map<StateByteClass, Long> residentByClass,
    long quarantinedBytes,
    long charges,
    long releases,
    long chargeFailures) {}
