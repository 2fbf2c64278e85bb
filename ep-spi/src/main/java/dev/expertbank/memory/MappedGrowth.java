package dev.expertbank.memory;

import dev.expertbank.memory.MappedGrowthGrant.Share;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * Finds capacity for a growing holder, one request after the other in the order of arrival. The
 * turn is held while holders are asked, the lock of the books is not.
 */
final class MappedGrowth {
  private final Duration turnWait;
  private final ReentrantLock turn = new ReentrantLock(true);
  private final List<ReclaimRegistration> registrations = new CopyOnWriteArrayList<>();
  private final AtomicLong attempts = new AtomicLong();
  private final AtomicLong refusals = new AtomicLong();
  private final AtomicLong movedBytes = new AtomicLong();

  MappedGrowth(Duration turnWait) {
    this.turnWait = turnWait;
  }

  ReclaimRegistration register(ReclaimableHolder holder) {
    ReclaimRegistration registration = new ReclaimRegistration(this, holder);
    registrations.add(registration);
    return registration;
  }

  void forget(ReclaimRegistration registration) {
    registrations.remove(registration);
  }

  List<HolderId> registered() {
    return registrations.stream().map(each -> each.allowance().holder()).toList();
  }

  MappedGrowthMetrics metrics() {
    return new MappedGrowthMetrics(attempts.get(), refusals.get(), movedBytes.get());
  }

  /** How many threads wait for their turn. */
  int waiting() {
    return turn.getQueueLength();
  }

  MappedGrowthGrant prepare(MappedAllowance requester, long bytes) {
    TierBooks books = requester.books();
    if (bytes < 0) {
      throw books.invalid(bytes, "a number of bytes cannot be negative.");
    }
    if (turn.isHeldByCurrentThread()) {
      throw books.invalid(bytes, "a holder that is asked to reclaim cannot grow meanwhile.");
    }
    if (bytes == 0) {
      return new MappedGrowthGrant(requester, 0);
    }
    attempts.incrementAndGet();
    try {
      takeTurn(requester, bytes);
      try {
        return find(requester, bytes);
      } finally {
        turn.unlock();
      }
    } catch (MemoryException e) {
      refusals.incrementAndGet();
      throw e;
    }
  }

  private void takeTurn(MappedAllowance requester, long bytes) {
    String failure;
    try {
      if (turn.tryLock(turnWait.toNanos(), TimeUnit.NANOSECONDS)) {
        return;
      }
      failure = "earlier requests to grow did not end within " + turnWait.toMillis() + " ms";
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      failure = "the thread was interrupted while it waited for earlier requests to grow";
    }
    throw unavailable(requester, bytes, failure, null);
  }

  private MappedGrowthGrant find(MappedAllowance requester, long bytes) {
    List<ReclaimRegistration> victims = victimsFor(requester);
    MappedGrowthGrant grant = new MappedGrowthGrant(requester, bytes);
    List<Share> shares =
        requester
            .books()
            .begin(grant, victims.stream().map(ReclaimRegistration::allowance).toList());
    boolean granted = false;
    try {
      long moved = 0;
      for (Share share : shares) {
        move(grant, share, holderOf(victims, share));
        moved += share.bytes();
      }
      movedBytes.addAndGet(moved);
      granted = true;
      return grant;
    } finally {
      if (!granted) {
        grant.close();
      }
    }
  }

  /** Everyone else in this tier, the first to be asked first. */
  private List<ReclaimRegistration> victimsFor(MappedAllowance requester) {
    List<ReclaimRegistration> victims = new ArrayList<>(registrations);
    victims.removeIf(
        each ->
            each.allowance().books() != requester.books()
                || each.allowance().holder().equals(requester.holder()));
    victims.sort(
        Comparator.comparingInt(ReclaimRegistration::priority)
            .thenComparingLong(each -> each.allowance().holder().number()));
    return victims;
  }

  private static ReclaimableHolder holderOf(List<ReclaimRegistration> victims, Share share) {
    for (ReclaimRegistration victim : victims) {
      if (victim.allowance() == share.from()) {
        return victim.holder();
      }
    }
    throw new IllegalStateException("a share was planned from an allowance that is not registered");
  }

  /** Moves the limit first, so that the holder cannot take back what it frees. */
  private void move(MappedGrowthGrant grant, Share share, ReclaimableHolder holder) {
    MappedAllowance from = share.from();
    TierBooks books = from.books();
    String name = "mapped holder '" + from.holder() + "'";
    if (!books.moveTentatively(share)) {
      String failure = name + " lowered its limit meanwhile";
      throw unavailable(grant.requester, grant.bytes, failure, null);
    }
    boolean moved = false;
    try {
      long target = from.limit();
      if (from.mapped() > target) {
        ask(grant, holder, name, target);
      }
      moved = books.finishMove(grant, share);
      if (!moved) {
        String failure =
            name + " could not reach its tentative reclaim target of " + target + " bytes";
        throw unavailable(grant.requester, grant.bytes, failure, null);
      }
    } finally {
      if (!moved) {
        books.undoMove(share);
      }
    }
  }

  private static void ask(
      MappedGrowthGrant grant, ReclaimableHolder holder, String name, long target) {
    try {
      holder.reclaimMapped(target);
    } catch (RuntimeException | Error e) {
      throw unavailable(grant.requester, grant.bytes, name + " failed to reclaim: " + e, e);
    }
  }

  private static MemoryException unavailable(
      MappedAllowance requester, long bytes, String failure, @Nullable Throwable cause) {
    return new MemoryException(
        requester.books().unavailable(bytes, requester.role(), failure), cause);
  }
}
