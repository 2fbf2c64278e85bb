package dev.expertbank.memory;

import dev.expertbank.memory.MemoryRefusal.InvalidRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Keeps the books of the memory of one device, for everyone in the process who uses it. Sizes are
 * in bytes.
 *
 * <ul>
 *   <li>A new claim never takes the sum of the live claims past the tier's limit.
 *   <li>A lease is released exactly once, when it is closed, and releasing cannot fail.
 *   <li>The governor frees nobody's memory: it asks holders. Lowering a limit revokes nothing.
 *   <li>A refused request leaves every claim as it was.
 * </ul>
 *
 * <p>Safe for use by any thread. The lock of the books is held for the arithmetic only. A thread
 * that calls {@link #prepareMappedGrowth} runs other holders' {@link
 * ReclaimableHolder#reclaimMapped}, so it must hold no lock that one of them waits for without
 * bound; the wait for earlier growth is itself bounded, by {@link #GROWTH_TURN_WAIT}.
 */
public final class MemoryGovernor {
  /** The limit of a tier that is counted but not bounded. */
  public static final long UNLIMITED = Long.MAX_VALUE;

  /** How long a request to grow waits for those before it. */
  public static final Duration GROWTH_TURN_WAIT = Duration.ofSeconds(30);

  private final MemoryAuthorityId authority;
  private final Map<Tier, TierBooks> books = new EnumMap<>(Tier.class);
  private final MappedGrowth growth;
  private final AtomicLong holders = new AtomicLong();

  /**
   * @param device what messages and reports call the device, such as {@code cuda:0}
   * @param limits what the claims of each tier may sum up to; a tier that is absent is unlimited
   * @throws MemoryException if a limit is negative
   */
  public MemoryGovernor(String device, Map<Tier, Long> limits) {
    this(device, limits, GROWTH_TURN_WAIT);
  }

  MemoryGovernor(String device, Map<Tier, Long> limits, Duration growthTurnWait) {
    authority = new MemoryAuthorityId(device);
    growth = new MappedGrowth(growthTurnWait);
    for (Tier tier : Tier.values()) {
      books.put(tier, new TierBooks(tier, limits.getOrDefault(tier, UNLIMITED)));
    }
  }

  /** A governor that counts everything and refuses nothing that fits into a number. */
  public static MemoryGovernor unlimited(String device) {
    return new MemoryGovernor(device, Map.of());
  }

  public MemoryAuthorityId authority() {
    return authority;
  }

  /** Makes an identity for an owner of memory, under a name that need not be unique. */
  public HolderId newHolder(String name) {
    return new HolderId(authority, holders.incrementAndGet(), name);
  }

  /**
   * Claims bytes that the holder is about to allocate.
   *
   * @throws MemoryException if they do not fit
   */
  public MemoryLease reserve(Tier tier, long bytes, MemoryRole role, HolderId holder) {
    TierBooks tierBooks = booksFor(tier, bytes, holder);
    MemoryLease lease = new MemoryLease(tierBooks, role, holder);
    tierBooks.open(lease, bytes);
    return lease;
  }

  /**
   * Accounts for bytes that are allocated already, even past the limit; what is past it shows as
   * {@link TierUsage#oversubscribed}.
   *
   * @throws MemoryException if the sum of all claims would overflow
   */
  public MemoryLease recordCommitted(Tier tier, long bytes, MemoryRole role, HolderId holder) {
    TierBooks tierBooks = booksFor(tier, bytes, holder);
    MemoryLease lease = new MemoryLease(tierBooks, role, holder);
    tierBooks.openCommitted(lease, bytes);
    return lease;
  }

  /**
   * Claims the right to map up to {@code limit} bytes.
   *
   * @throws MemoryException if they do not fit
   */
  public MappedAllowance reserveMappedAllowance(
      Tier tier, long limit, MemoryRole role, HolderId holder) {
    TierBooks tierBooks = booksFor(tier, limit, holder);
    MappedAllowance allowance = new MappedAllowance(tierBooks, role, holder);
    tierBooks.open(allowance, limit);
    return allowance;
  }

  /**
   * Makes a holder one that can be asked to free memory when another one grows.
   *
   * @throws MemoryException if its allowance is one of another governor
   */
  public ReclaimRegistration registerReclaimable(ReclaimableHolder holder) {
    requireOwn(holder.allowance(), 0);
    return growth.register(holder);
  }

  /**
   * Sets capacity aside that the requester may then map: first from its own unused allowance, then
   * from what no one has claimed, then from the limits of other registered holders in ascending
   * priority. A holder that has mapped more than what is left of its limit is asked to reclaim; if
   * it throws or stays above, everything is rolled back. If all holders together have too little,
   * none is asked. Requests are served in the order of arrival.
   *
   * @throws MemoryException if the capacity cannot be had, naming the holder that failed; or if
   *     called from {@link ReclaimableHolder#reclaimMapped}
   */
  public MappedGrowthGrant prepareMappedGrowth(MappedAllowance requester, long bytes) {
    requireOwn(requester, bytes);
    return growth.prepare(requester, bytes);
  }

  public MappedGrowthMetrics mappedGrowthMetrics() {
    return growth.metrics();
  }

  /** How many threads wait for earlier growth to end. */
  public int waitingToGrow() {
    return growth.waiting();
  }

  public TierUsage usage(Tier tier) {
    return books(tier).usage();
  }

  /**
   * Sets what the claims of a tier may sum up to. Lowering it below what is claimed revokes
   * nothing: it only refuses new claims until enough is given back.
   *
   * @throws MemoryException if {@code bytes} is negative
   */
  public void setLimit(Tier tier, long bytes) {
    books(tier).setLimit(bytes);
  }

  /** Every lease and allowance that has not been given back. */
  public List<OutstandingClaim> outstanding() {
    List<OutstandingClaim> claims = new ArrayList<>();
    for (TierBooks each : books.values()) {
      claims.addAll(each.outstanding());
    }
    return claims;
  }

  /**
   * What has not been given back or closed, as a tree of device, holders and their claims; empty if
   * there is nothing.
   */
  public String leakReport() {
    return LeakReport.of(authority, outstanding(), growth.registered());
  }

  static String limitText(long limit) {
    return limit == UNLIMITED ? "unlimited" : Long.toString(limit);
  }

  private TierBooks booksFor(Tier tier, long bytes, HolderId holder) {
    if (holder.authority() != authority) {
      throw new MemoryException(
          new InvalidRequest(
              tier,
              bytes,
              "the holder '"
                  + holder
                  + "' belongs to the governor of '"
                  + holder.authority()
                  + "', not to this one of '"
                  + authority
                  + "'."));
    }
    return books(tier);
  }

  private void requireOwn(MappedAllowance allowance, long bytes) {
    if (allowance.books() != booksFor(allowance.tier(), bytes, allowance.holder())) {
      throw allowance.books().invalid(bytes, "the allowance belongs to another governor.");
    }
  }

  private TierBooks books(Tier tier) {
    TierBooks tierBooks = books.get(tier);
    if (tierBooks == null) {
      throw new IllegalStateException("no books for " + tier);
    }
    return tierBooks;
  }
}
