package dev.expertbank.qmoe.events;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** An expert that runs read from its slot from now on. */
@Name("dev.expertbank.Publish")
@Label("Publish")
@Category("Expert bank")
@StackTrace(false)
public final class PublishEvent extends Event {
  @Label("Layer")
  public int layer;

  @Label("Expert")
  public int expert;
}
