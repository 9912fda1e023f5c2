import type {
  OpenTelemetry,
  OtelCounter,
  OtelHistogram,
  OtelMeterProvider,
} from './open-telemetry.ts'

/** The name of the instrumentation scope. */
export const SCOPE = 'mcp-client'

/** What is counted and measured. */
export interface Instruments {
  /** Operations with all they needed, replays included; of the semantic conventions for MCP. */
  readonly duration: OtelHistogram
  /** Sessions that were opened because the one before was lost. */
  readonly reinitializations: OtelCounter
  /** Stored sessions that went on without a handshake. */
  readonly resumptions: OtelCounter
  /** Tool calls of which it is not known whether they ran. */
  readonly unknownOutcomes: OtelCounter
  /** Whether what is measured gets anywhere. */
  readonly areHeard: boolean
}

const DURATION_BUCKETS_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

/** By provider, because one that is registered late takes the place of one that does nothing. */
const known = new WeakMap<OtelMeterProvider, Instruments>()

export function instrumentsOf({ metrics }: OpenTelemetry): Instruments {
  const provider = metrics.getMeterProvider()
  let instruments = known.get(provider)
  if (instruments === undefined) {
    instruments = createInstruments(provider)
    known.set(provider, instruments)
  }
  return instruments
}

function createInstruments(provider: OtelMeterProvider): Instruments {
  const meter = provider.getMeter(SCOPE)
  const instruments = {
    duration: meter.createHistogram('mcp.client.operation.duration', {
      description: 'How long an operation took, with lookup, handshake and replays',
      unit: 's',
      advice: { explicitBucketBoundaries: DURATION_BUCKETS_S },
    }),
    reinitializations: meter.createCounter('mcp.client.session.reinitializations', {
      description: 'Sessions opened because the one before was lost',
      unit: '{session}',
    }),
    resumptions: meter.createCounter('mcp.client.session.resumptions', {
      description: 'Stored sessions that went on without a handshake',
      unit: '{session}',
    }),
    unknownOutcomes: meter.createCounter('mcp.client.operation.unknown_outcomes', {
      description: 'Tool calls that may or may not have run',
      unit: '{call}',
    }),
  }
  // Where there is no provider, the API has one counter for all names, which does nothing.
  const areHeard = instruments.reinitializations !== instruments.resumptions
  return { ...instruments, areHeard }
}
