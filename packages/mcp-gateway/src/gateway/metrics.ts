// Metrics of a gateway in the format of Prometheus. Labels are tools and outcomes, which are the gateway's own words;
// never principals, whose number has no bound.
import { createRequire } from 'node:module'

import type * as PromClient from 'prom-client'

import { documentRoute, type HttpRoute } from '../http/router.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import type { AgentRegistry } from '../tools/agent-registry.ts'

/** Bounds of durations, in seconds: agents take as long as people do. */
const DURATIONS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

export interface GatewayMetrics {
  /** Counts what it receives. */
  readonly observer: GatewayObserver
  /** Returns the metrics as text. */
  readonly text: () => Promise<string>
}

type Labels = Readonly<Record<string, string>>

/** Label sets with the name of a tool. Agents come and go for years, so further label sets are counted as `other`. */
const MAX_LABEL_SETS = 1000

/** Returns a function that replaces labels by `other` when there are too many label sets. */
export function boundedLabels(): (labels: Labels) => Labels {
  const known = new Set<string>()
  return (labels) => {
    const key = Object.values(labels).join('\0')
    if (known.size < MAX_LABEL_SETS) known.add(key)
    if (known.has(key)) return labels
    return Object.fromEntries(Object.keys(labels).map((name) => [name, 'other']))
  }
}

/** Loads the library, which only gateways with metrics need. `createGateway` is synchronous, so this is too. */
function loadPromClient(): typeof PromClient {
  return createRequire(import.meta.url)('prom-client')
}

/**
 * Makes the metrics of one gateway.
 *
 * @param registry returns the registry when the metrics are read
 * @param countQueued as `RunEngine.countQueued`; must not reject
 */
export function gatewayMetrics(
  registry: () => Pick<AgentRegistry, 'agents' | 'plan'>,
  countQueued: () => Promise<number> = async () => 0,
): GatewayMetrics {
  const { Counter, Gauge, Histogram, Registry } = loadPromClient()
  const metrics = new Registry()
  const registers = [metrics]
  const byTool = boundedLabels()
  const byOutcome = boundedLabels()
  const counter = (name: string, help: string, ...labelNames: readonly string[]) =>
    new Counter({ name, help, labelNames, registers })
  const durations = (name: string, help: string) =>
    new Histogram({ name, help, labelNames: ['tool'], buckets: DURATIONS, registers })
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
  const callTime = durations('mcp_gateway_call_duration_seconds', 'Duration of tool calls.')
  const argumentBytes = counter('mcp_gateway_call_argument_bytes_total', 'Bytes of arguments.')
  const resultBytes = counter('mcp_gateway_call_result_bytes_total', 'Bytes of results.')
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
  const fileBytes = counter(
    'mcp_gateway_file_bytes_total',
    'Bytes of uploads and downloads over HTTP.',
    'direction',
  )
  const runs = counter(
    'mcp_gateway_runs_total',
    'Agent runs that ended, by outcome.',
    'tool',
    'outcome',
  )
  const runTime = durations('mcp_gateway_run_duration_seconds', 'Duration of agent runs.')
  const orphans = counter(
    'mcp_gateway_orphaned_runs_total',
    'Runs whose agent did not stop in time.',
    'tool',
  )
  const opened = counter('mcp_gateway_sessions_opened_total', 'Sessions that were opened.')
  const closed = counter(
    'mcp_gateway_sessions_closed_total',
    'Sessions that ended, by reason.',
    'reason',
  )
  const changes = counter('mcp_gateway_list_changes_total', 'Notified changes of lists.', 'list')
  const warnings = counter('mcp_gateway_warnings_total', 'Warnings in the log.')
  let [activeCalls, activeRuns, sessions] = [0, 0, 0]
  const running = new Set<string>()
  gauge('mcp_gateway_active_calls', 'Tool calls in flight.', () => activeCalls)
  gauge('mcp_gateway_active_runs', 'Agent runs in flight.', () => activeRuns)
  gauge('mcp_gateway_queued_tasks', 'Tasks that wait for a process.', countQueued)
  gauge('mcp_gateway_sessions', 'Open sessions.', () => sessions)
  gauge('mcp_gateway_agents', 'Current agents.', () => registry().agents().length)
  gauge('mcp_gateway_degraded_agents', 'Current agents that do not work.', () => {
    return registry()
      .agents()
      .filter(({ health }) => health === 'degraded').length
  })
  gauge('mcp_gateway_tools', 'Current tools.', () => registry().plan().tools.length)
  const startedAt = performance.now()
  gauge('mcp_gateway_uptime_seconds', 'Age of the gateway.', () => {
    return Math.round(performance.now() - startedAt) / 1000
  })
  gauge('process_resident_memory_bytes', 'Memory of the process.', () => process.memoryUsage.rss())

  const observer: GatewayObserver = {
    callStarted: () => {
      activeCalls += 1
      return undefined
    },
    callEnded: ({ tool: name, isKnown }, end) => {
      const tool = isKnown ? name : 'unknown'
      activeCalls -= 1
      calls.inc(byOutcome({ tool, outcome: end.outcome }))
      callTime.observe(byTool({ tool }), end.durationMs / 1000)
      argumentBytes.inc(end.requestBytes)
      resultBytes.inc(end.resultBytes)
    },
    requestRefused: ({ reason }) => refused.inc({ reason }),
    fileTransferred: ({ direction, outcome, bytes }) => {
      files.inc({ direction, outcome })
      fileBytes.inc({ direction }, bytes)
    },
    runEvent: (event) => {
      const { type, runId, tool } = event
      if (type === 'started') {
        running.add(runId)
        activeRuns += 1
      } else if (type === 'ended') {
        if (running.delete(runId)) activeRuns -= 1
        runs.inc(byOutcome({ tool, outcome: event.outcome }))
        runTime.observe(byTool({ tool }), event.durationMs / 1000)
      } else if (type === 'orphaned') orphans.inc(byTool({ tool }))
    },
    sessionOpened: () => {
      sessions += 1
      opened.inc()
    },
    sessionClosed: ({ reason }) => {
      sessions -= 1
      closed.inc({ reason })
    },
    listChanged: (list) => changes.inc({ list }),
    warned: () => warnings.inc(),
  }
  return { observer, text: () => metrics.metrics() }
}

/** Answers `GET` of a path, also for scrapers, which address the gateway by its IP address. */
export function metricsRoute(path: string, metrics: Pick<GatewayMetrics, 'text'>): HttpRoute {
  const route = documentRoute(path, async () => ({
    status: 200,
    mimeType: 'text/plain; version=0.0.4; charset=utf-8',
    text: await metrics.text(),
  }))
  // Without `auth`, the check of the Host header is all that keeps a web page from reading them.
  return { ...route, isOpen: false }
}
