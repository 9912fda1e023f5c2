// Metrics of a gateway in the format of Prometheus. Labels are tools and outcomes, which are the gateway's own words;
// never principals, whose number has no bound.
import type * as PromClient from 'prom-client'

import { documentRoute, type HttpRoute } from '../http/router.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import type { AgentRegistry } from '../tools/agent-registry.ts'
import { addProcessMetrics } from './process-metrics.ts'

/** Bounds of durations, in seconds: agents take as long as people do. */
const DURATIONS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

export interface GatewayMetrics {
  /** Counts what it receives. */
  readonly observer: GatewayObserver
  /** Returns the metrics as text. */
  readonly text: () => Promise<string>
  /** Ends the measurement of the process. */
  readonly close: () => void
}

type Labels = Readonly<Record<string, string>>

/** Label sets with the name of a tool. Agents come and go for years, so further label sets are counted as `other`. */
const MAX_LABEL_SETS = 1000

/** Returns a function that replaces labels by `other` when there are too many label sets. */
export function boundedLabels(): (labels: Labels) => Labels {
  const known = new Set<string>()
  return (labels) => {
    const key = Object.values(labels).join('\0')
    if (known.has(key)) return labels
    if (known.size < MAX_LABEL_SETS) {
      known.add(key)
      return labels
    }
    return Object.fromEntries(Object.keys(labels).map((name) => [name, 'other']))
  }
}

/** Values that a request for the metrics reads. */
export interface MetricSources {
  readonly registry: () => Pick<AgentRegistry, 'agents' | 'plan'>
  /** As `RunEngine.countQueued`. Must not reject. */
  readonly countQueued: () => Promise<number>
  /** Must not reject. */
  readonly isStoreReady: () => Promise<boolean>
  /** Number of bytes of answers that wait for their clients. */
  readonly unreadBytes: () => number
}

/** Makes the metrics of one gateway. Loads the library, which only gateways with metrics need. */
export function gatewayMetrics(sources: MetricSources): GatewayMetrics {
  let observer: MetricsObserver | undefined
  /** Undefined when the library is loaded, or cannot be. */
  let early: ((to: MetricsObserver) => void)[] | undefined = []
  const loading = import('prom-client').then((client) => {
    const made = makeMetrics(client, sources)
    observer = made.observer
    for (const tell of early ?? []) tell(observer)
    early = undefined
    return made
  })
  // A request for the metrics reports it.
  loading.catch(() => (early = undefined))
  const tell = (event: (to: MetricsObserver) => void): void => {
    if (observer) event(observer)
    else if (early && early.length < MAX_EARLY) early.push(event)
  }
  return {
    observer: {
      callEnded: (call, end) => tell((to) => to.callEnded(call, end)),
      requestRefused: (refusal) => tell((to) => to.requestRefused(refusal)),
      fileTransferred: (transfer) => tell((to) => to.fileTransferred(transfer)),
      // No other event of a run is counted.
      runEvent: (event) => {
        if (event.type === 'ended') tell((to) => to.runEvent(event))
      },
      sessionOpened: () => tell((to) => to.sessionOpened()),
      sessionClosed: (end) => tell((to) => to.sessionClosed(end)),
    },
    text: async () => (await loading).text(),
    close: () =>
      void loading.then(
        ({ close }) => close(),
        () => {},
      ),
  }
}

/** Events that are kept while the library is loaded. */
const MAX_EARLY = 10_000

type MetricsObserver = Pick<
  Required<GatewayObserver>,
  | 'callEnded'
  | 'requestRefused'
  | 'fileTransferred'
  | 'runEvent'
  | 'sessionOpened'
  | 'sessionClosed'
>

function makeMetrics(
  { Counter, Gauge, Histogram, Registry }: typeof PromClient,
  { registry, countQueued, isStoreReady, unreadBytes }: MetricSources,
): GatewayMetrics & { readonly observer: MetricsObserver } {
  const metrics = new Registry()
  const registers = [metrics]
  const byTool = boundedLabels()
  const byOutcome = boundedLabels()
  const counter = (name: string, help: string, ...labelNames: readonly string[]) =>
    new Counter({ name, help, labelNames, registers })
  const gauge = (name: string, help: string, read: () => number | Promise<number>): void => {
    const metric: PromClient.Gauge = new Gauge({
      name,
      help,
      registers,
      collect: async () => metric.set(await read()),
    })
  }

  const calls = counter(
    'mcp_gateway_calls_total',
    'Tool calls that ended, by outcome.',
    'tool',
    'outcome',
  )
  const callTime = new Histogram({
    name: 'mcp_gateway_call_duration_seconds',
    help: 'Duration of tool calls.',
    labelNames: ['tool'],
    buckets: DURATIONS,
    registers,
  })
  const runs = counter(
    'mcp_gateway_runs_total',
    'Agent runs that ended, by outcome.',
    'tool',
    'outcome',
  )
  const refused = counter(
    'mcp_gateway_refused_requests_total',
    'Requests refused by credential, origin or rate, by reason.',
    'reason',
  )
  const files = counter(
    'mcp_gateway_file_transfers_total',
    'Uploads and downloads over HTTP, by outcome.',
    'direction',
    'outcome',
  )
  let sessions = 0
  gauge('mcp_gateway_sessions', 'Open sessions.', () => sessions)
  const agents: PromClient.Gauge = new Gauge({
    name: 'mcp_gateway_agents',
    help: 'Current agents, by health.',
    labelNames: ['health'],
    registers,
    collect: () => {
      const degraded = registry()
        .agents()
        .filter(({ health }) => health === 'degraded').length
      agents.set({ health: 'healthy' }, registry().agents().length - degraded)
      agents.set({ health: 'degraded' }, degraded)
    },
  })
  gauge('mcp_gateway_tools', 'Current tools.', () => registry().plan().tools.length)
  gauge('mcp_gateway_queued_tasks', 'Tasks that wait for a process.', countQueued)
  gauge('mcp_gateway_store_ready', '1 if the store can be written, else 0.', async () => {
    return Number(await isStoreReady())
  })
  gauge('mcp_gateway_unread_bytes', 'Bytes of answers that wait for their clients.', unreadBytes)
  const close = addProcessMetrics({ Counter, Gauge }, metrics)

  const observer: MetricsObserver = {
    callEnded: ({ tool: name, isKnown }, { outcome, durationMs }) => {
      const tool = isKnown ? name : 'unknown'
      calls.inc(byOutcome({ tool, outcome }))
      callTime.observe(byTool({ tool }), durationMs / 1000)
    },
    requestRefused: ({ reason }) => refused.inc({ reason }),
    fileTransferred: ({ direction, outcome }) => files.inc({ direction, outcome }),
    runEvent: (event) => {
      const { type, tool } = event
      if (type === 'ended') runs.inc(byOutcome({ tool, outcome: event.outcome }))
    },
    sessionOpened: () => void (sessions += 1),
    sessionClosed: () => void (sessions -= 1),
  }
  return { observer, text: () => metrics.metrics(), close }
}

/**
 * Answers `GET` of a path.
 *
 * @param isOpen also for scrapers, which address the gateway by its IP address. Without `auth`, the check of the Host
 *   header is all that keeps a web page from reading the metrics
 */
export function metricsRoute(
  path: string,
  metrics: Pick<GatewayMetrics, 'text'>,
  isOpen: boolean,
): HttpRoute {
  const route = documentRoute(path, async () => ({
    status: 200,
    mimeType: 'text/plain; version=0.0.4; charset=utf-8',
    text: await metrics.text(),
  }))
  return { ...route, isOpen }
}
