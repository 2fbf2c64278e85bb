package dev.expertbank.qmoe.events;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** A copy of an expert into a slot, from its start until its end is known. */
@Name("dev.expertbank.Fill")
@Label("Fill")
@Category("Expert bank")
@StackTrace(false)
public final class FillEvent extends Event {
  @Label("Layer")
  public int layer;

  @Label("Expert")
  public int expert;

  @Label("Bytes")
  @DataAmount
  public long bytes;

  @Label("End")
  public String end = "";
}
