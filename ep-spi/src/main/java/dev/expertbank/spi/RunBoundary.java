package dev.expertbank.spi;

/**
 * A moment at which no run of the session is in flight.
 *
 * @param index counts the boundaries of this session from 0
 * @param completedRuns top-level runs that ended since the boundary before; more than one only when
 *     runs overlapped
 */
public record RunBoundary(long index, int completedRuns) {}
