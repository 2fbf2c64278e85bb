package dev.expertbank.qmoe.boundary;

import dev.expertbank.memory.MappedAllowance;
import dev.expertbank.memory.ReclaimRegistration;
import dev.expertbank.memory.ReclaimableHolder;
import dev.expertbank.qmoe.bank.ExpertBank;
import dev.expertbank.qmoe.bank.ExpertSlots;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.RouteCounters;
import dev.expertbank.qmoe.events.BoundaryEvent;
import dev.expertbank.qmoe.events.ResizeEvent;
import dev.expertbank.residency.BudgetLease;
import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.HeatProfileText;
import dev.expertbank.residency.HeatTable;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.PrefillStreamMetrics;
import dev.expertbank.residency.ResidencyBoundary;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyLedger;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResidencyOutcome;
import dev.expertbank.residency.ResidencyPolicies;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.ResidencyState;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.residency.SafePoint;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.SafePoints;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The residency of one session, live: the pure boundary with the bank, the device and the memory
 * governor around it. Everything but {@link #metrics} is called at safe points only.
 */
public final class Residency implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(Residency.class.getName());
  private static final ResidencyOutcome DISABLED = new ResidencyOutcome.Disabled();

  /** How many resizes the metrics remember. */
  private static final int RESIZES = 64;

  /** How long another session's growth waits for a safe point of this one. */
  private static final long RECLAIM_WAIT_MILLIS = 1000;

  private final ResidencyOptions options;
  private final Device device;
  private final ResidencyLedger ledger;
  private final HeatTable heat;
  private final BankBudget budget;
  private final ExpertSlots slots;
  private final RouteCounters counters;
  private final ResidencyBoundary boundary;
  private final Deque<ResizeOutcome> resizes = new ArrayDeque<>();
  private final ReclaimRegistration registration;
  private final Optional<Prefill> prefill;
  private final ManagementBean bean;
  private volatile ResidencyMetrics metrics;

  private Residency(
      ResidencyOptions options,
      ExpertBank bank,
      Device device,
      SafePoints safePoints,
      Plan plan,
      BankBudget budget,
      Optional<Prefill> prefill) {
    this.options = options;
    this.device = device;
    this.budget = budget;
    this.prefill = prefill;
    heat = plan.heat();
    ledger = new ResidencyLedger(plan.layout(), budget.allowance().limit());
    slots = new ExpertSlots(bank, plan.layout(), device, budget.allowance());
    counters =
        device.openRouteCounters(
            plan.layout().layers().stream().map(LayerLayout::experts).toList());
    boundary =
        new ResidencyBoundary(
            ledger,
            heat,
            plan.policy(),
            new ResidencyBoundary.Settings(RouteTelemetry.OWNER, options.byteCap()),
            new RouteTelemetry(counters, plan.layout()),
            slots);
    registration = budget.governor().registerReclaimable(new Reclaim(safePoints));
    metrics = snapshot();
    bean = new ManagementBean(device.name(), budget.allowance().holder().number(), this::metrics);
  }

  /** Starts what the first {@link #open} of a process would wait for. */
  public static void warmUp() {
    ManagementBean.warmUp();
  }

  /** What the options come to for a model. */
  private record Plan(ResidencyLayout layout, HeatTable heat, ResidencyPolicy policy) {}

  /**
   * Claims the budget and begins to count routes.
   *
   * @param bank with all layers open; stays the caller's, as does the device
   * @throws EpException if an option cannot be honoured
   */
  public static Residency open(
      ResidencyOptions options, ExpertBank bank, Device device, SafePoints safePoints) {
    Plan plan = plan(options, bank.layout(device.slotGranularity()));
    BankBudget budget = BankBudget.claim(options.budget(), device, plan.layout());
    Optional<Prefill> prefill = Optional.empty();
    Residency residency;
    try {
      prefill = openPrefill(options.prefillStreaming(), budget, device, plan.layout());
      residency = new Residency(options, bank, device, safePoints, plan, budget, prefill);
    } catch (RuntimeException | Error e) {
      prefill.ifPresent(Prefill::close);
      budget.close();
      throw e;
    }
    residency.arm();
    return residency;
  }

  private static Optional<Prefill> openPrefill(
      PrefillStreaming wanted, BankBudget budget, Device device, ResidencyLayout layout) {
    return switch (wanted) {
      case OFF -> Optional.empty();
      case ON -> Optional.of(Prefill.open(budget, device, layout));
      case AUTO -> {
        if (!device.gainsByPrefillStreams()) {
          yield Optional.empty();
        }
        try {
          yield Optional.of(Prefill.open(budget, device, layout));
        } catch (EpException e) {
          LOG.log(
              System.Logger.Level.INFO,
              "prefill reads cold experts in place, because there is no room to stream them: "
                  + e.getMessage());
          yield Optional.empty();
        }
      }
    };
  }

  private static Plan plan(ResidencyOptions options, ResidencyLayout layout) {
    long smallest =
        layout.layers().stream().mapToLong(LayerLayout::expertBytes).min().orElseThrow();
    if (options.byteCap() < smallest) {
      throw new EpException(
          "residency.byte-cap",
          "a residency.byte-cap of "
              + options.byteCap()
              + " bytes lets nothing move: the smallest expert has "
              + smallest);
    }
    options.saveProfile().ifPresent(Residency::checkWritable);
    Optional<HeatProfile> profile =
        options.loadProfile().map(file -> HeatProfileText.load(file, layout));
    HeatTable heat =
        profile
            .map(loaded -> new HeatTable(layout, HeatTable.Settings.DEFAULT, loaded))
            .orElseGet(() -> new HeatTable(layout, HeatTable.Settings.DEFAULT));
    ResidencyPolicy policy =
        ResidencyPolicies.create(
            options.policy(), new PolicySettings(layout, profile, options.pins()));
    return new Plan(layout, heat, policy);
  }

  /** Told now rather than when the session ends and the profile is lost. */
  private static void checkWritable(Path file) {
    Path directory = file.toAbsolutePath().getParent();
    if (directory == null || !Files.isDirectory(directory) || !Files.isWritable(directory)) {
      throw new EpException(
          "profile.write",
          "residency.profile.save: " + directory + " is not a directory that can be written to");
    }
  }

  private void arm() {
    try {
      boundary.arm();
      counters.arm();
    } catch (RuntimeException e) {
      LOG.log(System.Logger.Level.WARNING, "residency is off: no routes can be counted", e);
    }
    metrics = snapshot();
  }

  /** The boundary after one or more runs. Never throws for what residency itself can fail at. */
  public ResidencyOutcome consume() {
    if (!boundary.isArmed()) {
      return DISABLED;
    }
    BoundaryEvent event = new BoundaryEvent();
    event.begin();
    device.awaitRuns();
    ResidencyOutcome outcome =
        boundary.consume(() -> new SafePoint(device.capturing(), 0, 0, false, 0));
    commit(event, outcome);
    if (outcome instanceof ResidencyOutcome.Failed(String reason)) {
      LOG.log(System.Logger.Level.WARNING, "residency has disarmed itself: " + reason);
    }
    settle();
    return outcome;
  }

  private static void commit(BoundaryEvent event, ResidencyOutcome outcome) {
    event.end();
    if (event.shouldCommit()) {
      event.outcome = outcome.getClass().getSimpleName();
      if (outcome instanceof ResidencyOutcome.Applied applied) {
        event.hits = applied.use().hits();
        event.misses = applied.use().misses();
        event.startedBytes = applied.moves().startedBytes();
      }
      event.commit();
    }
  }

  /** Changes the budget. */
  public ResizeOutcome resize(ResizeRequest request) {
    ResizeEvent event = new ResizeEvent();
    event.begin();
    device.awaitRuns();
    ResizeOutcome outcome = boundary.resize(request, this::safePoint, new Governed());
    event.end();
    if (event.shouldCommit()) {
      event.direction = request.direction().name();
      event.requestedBytes = request.bytes();
      event.achievedBytes = outcome.achievedBytes();
      event.extent = outcome.extent().name();
      event.commit();
    }
    resizes.addLast(outcome);
    if (resizes.size() > RESIZES) {
      resizes.removeFirst();
    }
    settle();
    return outcome;
  }

  private SafePoint safePoint() {
    return new SafePoint(device.capturing(), ledger.count(ResidencyState.FILLING), 0, false, 0);
  }

  private void settle() {
    device.awaitRuns();
    if (!boundary.isArmed()) {
      counters.disarm();
    }
    long difference = budget.allowance().limit() - ledger.budgetBytes();
    if (difference != 0) {
      boundary.resize(
          new ResizeRequest(
              difference > 0 ? ResizeRequest.Direction.GROW : ResizeRequest.Direction.SHRINK,
              Math.abs(difference)),
          this::safePoint,
          new Moved());
    }
    metrics = snapshot();
  }

  /** As of the last boundary or resize. Safe from any thread. */
  public ResidencyMetrics metrics() {
    return metrics;
  }

  private ResidencyMetrics snapshot() {
    return new ResidencyMetrics(
        boundary.totals().use().byteHitRate(),
        boundary.isArmed(),
        boundary.totals(),
        ledger.residentBytes(),
        ledger.budgetBytes(),
        ledger.committedBytes(),
        ledger.peakCommittedBytes(),
        budget.allowance().mapped(),
        ledger.count(ResidencyState.RESIDENT),
        ledger.count(ResidencyState.QUARANTINED),
        ledger.quarantinedBytes(),
        slots.waitNanos(),
        prefill.map(Prefill::metrics).orElse(PrefillStreamMetrics.NONE),
        List.copyOf(resizes));
  }

  @Override
  public void close() {
    bean.close();
    registration.close();
    counters.disarm();
    try {
      options.saveProfile().ifPresent(file -> HeatProfileText.save(heat.profile(), file));
    } catch (EpException e) {
      LOG.log(System.Logger.Level.ERROR, e.getMessage());
    } finally {
      awaitRuns();
      slots.close();
      prefill.ifPresent(Prefill::close);
      budget.close();
    }
  }

  /** What is closed next must not be read any more; a device that is lost reads nothing. */
  private void awaitRuns() {
    try {
      device.awaitRuns();
    } catch (EpException e) {
      LOG.log(System.Logger.Level.WARNING, "the last runs have not ended", e);
    }
  }

  /** A budget that this session changes. */
  private final class Governed implements BudgetLease {
    @Override
    public long grow(long bytes) {
      budget.grow(bytes);
      return bytes;
    }

    @Override
    public long shrink(long bytes) {
      MappedAllowance allowance = budget.allowance();
      long target = allowance.limit() - bytes;
      slots.releaseDownTo(target);
      long stays = Math.max(0, allowance.mapped() - target);
      if (stays >= bytes) {
        throw new EpException("memory.shrink", "no slot could be given back to the system");
      }
      return allowance.lowerLimit(bytes - stays);
    }
  }

  /** A budget that another session's growth has changed already. */
  private final class Moved implements BudgetLease {
    @Override
    public long grow(long bytes) {
      return bytes;
    }

    @Override
    public long shrink(long bytes) {
      MappedAllowance allowance = budget.allowance();
      slots.releaseDownTo(allowance.limit());
      return Math.max(0, bytes - Math.max(0, allowance.mapped() - allowance.limit()));
    }
  }

  /** Gives memory to a session that grows, at this session's next safe point. */
  private final class Reclaim implements ReclaimableHolder {
    private final SafePoints safePoints;

    Reclaim(SafePoints safePoints) {
      this.safePoints = safePoints;
    }

    @Override
    public MappedAllowance allowance() {
      return budget.allowance();
    }

    @Override
    public int reclaimPriority() {
      return 0;
    }

    @Override
    public void reclaimMapped(long targetBytes) {
      Future<Boolean> settled =
          safePoints.next(
              () -> {
                settle();
                return true;
              });
      try {
        settled.get(RECLAIM_WAIT_MILLIS, TimeUnit.MILLISECONDS);
      } catch (TimeoutException e) {
        settled.cancel(false);
        throw new EpException(
            "memory.busy",
            "no safe point within " + RECLAIM_WAIT_MILLIS + " ms: a run takes longer",
            e);
      } catch (InterruptedException e) {
        settled.cancel(false);
        Thread.currentThread().interrupt();
        throw new EpException("memory.busy", "interrupted while waiting for a safe point", e);
      } catch (ExecutionException e) {
        throw new EpException("memory.reclaim", "giving memory back failed: " + e.getCause(), e);
      }
    }
  }
}
