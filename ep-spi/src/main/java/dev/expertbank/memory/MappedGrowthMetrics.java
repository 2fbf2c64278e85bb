package dev.expertbank.memory;

/**
 * Growth prepared through one governor so far.
 *
 * @param attempts requests for more than zero bytes
 * @param refusals attempts that were refused, with everything rolled back
 * @param movedBytes limits that moved from other holders to requesters whose growth was granted
 */
public record MappedGrowthMetrics(long attempts, long refusals, long movedBytes) {}
