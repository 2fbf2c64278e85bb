package dev.expertbank.memory;

import dev.expertbank.memory.MappedGrowthGrant.Share;
import dev.expertbank.memory.MemoryRefusal.CapacityUnavailable;
import dev.expertbank.memory.MemoryRefusal.InvalidRequest;
import dev.expertbank.memory.MemoryRefusal.TierExhausted;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * The books of one tier: every live lease and allowance, and the one lock that guards them all.
 * Nothing outside this package is called while the lock is held, so it is always the last one
 * taken.
 */
final class TierBooks {
  private final Tier tier;
  private final Set<MemoryLease> leases = new LinkedHashSet<>();
  private final Set<MappedAllowance> allowances = new LinkedHashSet<>();
  private long limit;
  private long leased;
  private long growthReserved;
  private long unmapUnderflow;
  private long reservations;
  private long releases;

  TierBooks(Tier tier, long limit) {
    this.tier = tier;
    setLimit(limit);
  }

  Tier tier() {
    return tier;
  }

  synchronized void setLimit(long bytes) {
    requireNotNegative(bytes);
    limit = bytes;
  }

  synchronized TierUsage usage() {
    long assigned = 0;
    long mapped = 0;
    for (MappedAllowance allowance : allowances) {
      assigned += allowance.claim();
      mapped += allowance.mapped;
    }
    return new TierUsage(
        limit, leased, assigned, mapped, growthReserved, unmapUnderflow, reservations, releases);
  }

  /** One consistent look at everything that is outstanding, in the order of opening. */
  synchronized List<OutstandingClaim> outstanding() {
    List<OutstandingClaim> claims = new ArrayList<>(leases.size() + allowances.size());
    for (MemoryLease lease : leases) {
      claims.add(new OutstandingClaim(tier, lease.holder(), lease.role(), lease.bytes, 0, false));
    }
    for (MappedAllowance allowance : allowances) {
      claims.add(
          new OutstandingClaim(
              tier,
              allowance.holder(),
              allowance.role(),
              allowance.claim(),
              allowance.mapped,
              true));
    }
    return claims;
  }

  // Leases.

  synchronized void open(MemoryLease lease, long bytes) {
    requireRoom(bytes, lease.role());
    enter(lease, bytes);
  }

  synchronized void openSibling(MemoryLease lease, MemoryLease sibling, long bytes) {
    requireOpen(lease, bytes);
    open(sibling, bytes);
  }

  /** Enters bytes that are committed already, whatever the limit says. */
  synchronized void openCommitted(MemoryLease lease, long bytes) {
    requireNotNegative(bytes);
    if (bytes > Long.MAX_VALUE - usage().claimed()) {
      throw invalid(bytes, "the sum of all claims would overflow.");
    }
    enter(lease, bytes);
  }

  private void enter(MemoryLease lease, long bytes) {
    lease.bytes = bytes;
    leased += bytes;
    reservations++;
    leases.add(lease);
  }

  synchronized long bytesOf(MemoryLease lease) {
    return lease.bytes;
  }

  synchronized void grow(MemoryLease lease, long more) {
    requireOpen(lease, more);
    requireRoom(more, lease.role());
    lease.bytes += more;
    leased += more;
  }

  synchronized long shrink(MemoryLease lease, long fewer) {
    requireNotNegative(fewer);
    long returned = Math.min(fewer, lease.bytes);
    lease.bytes -= returned;
    leased -= returned;
    return returned;
  }

  synchronized void absorb(MemoryLease lease, MemoryLease sibling) {
    requireOpen(lease, 0);
    requireOpen(sibling, 0);
    long bytes = sibling.bytes;
    close(sibling);
    lease.bytes += bytes;
    leased += bytes;
  }

  synchronized void close(MemoryLease lease) {
    if (!lease.closed) {
      shrink(lease, lease.bytes);
      lease.closed = true;
      leases.remove(lease);
      releases++;
    }
  }

  // Allowances.

  synchronized void open(MappedAllowance allowance, long bytes) {
    requireRoom(bytes, allowance.role());
    allowance.limit = bytes;
    allowances.add(allowance);
  }

  synchronized boolean tryMap(MappedAllowance allowance, long bytes) {
    requireNotNegative(bytes);
    if (bytes > allowance.room()) {
      return false;
    }
    allowance.mapped += bytes;
    return true;
  }

  synchronized long unmap(MappedAllowance allowance, long bytes) {
    requireNotNegative(bytes);
    long returned = Math.min(bytes, allowance.mapped);
    allowance.mapped -= returned;
    unmapUnderflow += bytes - returned;
    forgetIfOver(allowance);
    return returned;
  }

  synchronized void raiseLimit(MappedAllowance allowance, long more) {
    requireOpen(allowance, more);
    // Raising a limit that is below what is mapped claims nothing until it passes that.
    long claim = Math.max(0, more - (allowance.claim() - allowance.limit));
    requireNotNegative(more);
    requireRoom(claim, allowance.role());
    allowance.limit += more;
  }

  synchronized long lowerLimit(MappedAllowance allowance, long fewer) {
    requireNotNegative(fewer);
    long returned = Math.min(fewer, Math.max(0, allowance.unreserved()));
    allowance.limit -= returned;
    return returned;
  }

  synchronized void close(MappedAllowance allowance) {
    allowance.closed = true;
    // What a growth in progress holds of it is given back when that growth ends.
    allowance.limit = allowance.growthReserved + allowance.reclaiming;
    forgetIfOver(allowance);
  }

  private void forgetIfOver(MappedAllowance allowance) {
    if (allowance.closed && allowance.claim() == 0) {
      allowances.remove(allowance);
    }
  }

  // Growth. Between begin and commit or cancel, every byte of a grant is either a growth
  // reservation inside an allowance or one of the tier, so the sum of all claims never moves.

  /**
   * Takes what the requester has unused and what no one has claimed, and says what must come from
   * each of the others, in their order. If all of it together is too little, nothing is taken.
   */
  synchronized List<Share> begin(MappedGrowthGrant grant, List<MappedAllowance> others) {
    MappedAllowance requester = grant.requester;
    requireOpen(requester, grant.bytes);
    TierUsage usage = usage();
    long own = Math.min(grant.bytes, requester.room());
    long unclaimed = Math.min(grant.bytes - own, usage.available());
    long missing = grant.bytes - own - unclaimed;
    List<Share> shares = new ArrayList<>();
    for (MappedAllowance other : others) {
      long share = Math.min(missing, other.unreserved());
      if (share > 0) {
        shares.add(new Share(other, share));
        missing -= share;
      }
    }
    if (missing > 0) {
      throw new MemoryException(exhausted(grant.bytes, grant.bytes - missing, requester.role()));
    }
    grant.fromOwn = own;
    requester.growthReserved += own;
    grant.fromUnclaimed = unclaimed;
    growthReserved += unclaimed;
    return shares;
  }

  /**
   * Moves a part of an allowance's limit away tentatively.
   *
   * @return false if the limit has become too small since the share was planned
   */
  synchronized boolean moveTentatively(Share share) {
    MappedAllowance from = share.from();
    if (share.bytes() > from.unreserved()) {
      return false;
    }
    from.reclaiming += share.bytes();
    return true;
  }

  /** Makes a tentative move final if the allowance keeps to what is left of its limit. */
  synchronized boolean finishMove(MappedGrowthGrant grant, Share share) {
    MappedAllowance from = share.from();
    if (from.mapped > from.unreserved()) {
      return false;
    }
    from.reclaiming -= share.bytes();
    from.limit -= share.bytes();
    forgetIfOver(from);
    growthReserved += share.bytes();
    grant.moved.add(share);
    return true;
  }

  synchronized void undoMove(Share share) {
    share.from().reclaiming -= share.bytes();
    trimIfClosed(share.from(), share.bytes());
  }

  synchronized void commit(MappedGrowthGrant grant, long actual) {
    requireNotNegative(actual);
    if (grant.ended) {
      throw invalid(actual, "the grant has been committed or closed already.");
    }
    requireOpen(grant.requester, actual);
    if (actual > grant.bytes) {
      throw invalid(actual, "the grant is for " + grant.bytes + " bytes only.");
    }
    long fromOthers = Math.max(0, actual - grant.fromOwn);
    end(grant, Math.max(0, fromOthers - grant.fromUnclaimed));
    grant.requester.limit += fromOthers;
    grant.requester.mapped += actual;
  }

  synchronized void cancel(MappedGrowthGrant grant) {
    if (!grant.ended) {
      end(grant, 0);
    }
  }

  /** Ends all reservations of a grant; {@code kept} bytes of the moved limits stay moved. */
  private void end(MappedGrowthGrant grant, long kept) {
    grant.ended = true;
    grant.requester.growthReserved -= grant.fromOwn;
    trimIfClosed(grant.requester, grant.fromOwn);
    growthReserved -= grant.fromUnclaimed;
    long toKeep = kept;
    for (Share share : grant.moved) {
      growthReserved -= share.bytes();
      long keptOfShare = Math.min(toKeep, share.bytes());
      toKeep -= keptOfShare;
      if (!share.from().closed) {
        share.from().limit += share.bytes() - keptOfShare;
      }
    }
  }

  /** A closed allowance keeps only what growth has set aside of it. */
  private void trimIfClosed(MappedAllowance allowance, long bytes) {
    if (allowance.closed) {
      allowance.limit -= bytes;
      forgetIfOver(allowance);
    }
  }

  // Refusals.

  MemoryException invalid(long requested, String reason) {
    return new MemoryException(new InvalidRequest(tier, requested, reason));
  }

  synchronized CapacityUnavailable unavailable(long requested, MemoryRole role, String source) {
    TierUsage usage = usage();
    return new CapacityUnavailable(
        tier, requested, usage.claimed(), limit, usage.available(), role, source);
  }

  private TierExhausted exhausted(long requested, long available, MemoryRole role) {
    return new TierExhausted(tier, requested, usage().claimed(), limit, available, role);
  }

  private void requireRoom(long bytes, MemoryRole role) {
    requireNotNegative(bytes);
    long available = usage().available();
    if (bytes > available) {
      throw new MemoryException(exhausted(bytes, available, role));
    }
  }

  private void requireNotNegative(long bytes) {
    if (bytes < 0) {
      throw invalid(bytes, "a number of bytes cannot be negative.");
    }
  }

  private void requireOpen(MemoryLease lease, long bytes) {
    if (lease.closed) {
      throw invalid(bytes, "the lease of '" + lease.holder() + "' is closed.");
    }
  }

  private void requireOpen(MappedAllowance allowance, long bytes) {
    if (allowance.closed) {
      throw invalid(bytes, "the allowance of '" + allowance.holder() + "' is closed.");
    }
  }
}
