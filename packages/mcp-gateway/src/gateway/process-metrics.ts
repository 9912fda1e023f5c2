// Metrics of the process, with the names that dashboards for Node.js know. `collectDefaultMetrics()` of the library has
// them too, but its timers and observers never end, also not when the gateway is closed.
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'

import type * as PromClient from 'prom-client'

/** Time between two samples of the event loop. Milliseconds. */
const RESOLUTION_MS = 20

/**
 * Adds the metrics of the process to a registry.
 *
 * @returns a function that ends the measurement
 */
export function addProcessMetrics(
  { Counter, Gauge }: Pick<typeof PromClient, 'Counter' | 'Gauge'>,
  registry: PromClient.Registry,
): () => void {
  const registers = [registry]
  const gauge = (name: string, help: string, read: () => number | Promise<number>): void => {
    const metric: PromClient.Gauge = new Gauge({
      name,
      help,
      registers,
      collect: async () => metric.set(await read()),
    })
  }
  const counter = (name: string, help: string, read: () => number): void => {
    let before = 0
    const metric: PromClient.Counter = new Counter({
      name,
      help,
      registers,
      collect: () => {
        const now = read()
        metric.inc(now - before)
        before = now
      },
    })
  }
  counter('process_cpu_user_seconds_total', 'User CPU time of the process.', () => cpu('user'))
  counter('process_cpu_system_seconds_total', 'System CPU time of the process.', () => {
    return cpu('system')
  })
  counter('process_cpu_seconds_total', 'CPU time of the process.', () => {
    return cpu('user') + cpu('system')
  })
  gauge('process_start_time_seconds', 'Start of the process, in seconds since 1970.', () => {
    return performance.timeOrigin / 1000
  })
  gauge('process_resident_memory_bytes', 'Resident memory of the process.', () => {
    return process.memoryUsage.rss()
  })
  gauge('nodejs_heap_size_total_bytes', 'Size of the heap.', () => memory('heapTotal'))
  gauge('nodejs_heap_size_used_bytes', 'Used part of the heap.', () => memory('heapUsed'))
  gauge('nodejs_external_memory_bytes', 'Memory outside of the heap, such as buffers.', () => {
    return memory('external')
  })

  const lag = 'Lag of the event loop since the last request for the metrics'
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  delays.enable()
  // Each sample includes the time between two samples.
  const seconds = (nanoseconds: number): number =>
    Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1000) || 0
  let sample = { p50: 0, p99: 0, max: 0 }
  // The first of them reads for all, so that no delay is lost between a read and the reset.
  gauge('nodejs_eventloop_lag_mean_seconds', `${lag}: mean.`, () => {
    const mean = seconds(delays.mean)
    const [p50, p99] = [seconds(delays.percentile(50)), seconds(delays.percentile(99))]
    sample = { p50, p99, max: seconds(delays.max) }
    delays.reset()
    return mean
  })
  gauge('nodejs_eventloop_lag_p50_seconds', `${lag}: median.`, () => sample.p50)
  gauge('nodejs_eventloop_lag_p99_seconds', `${lag}: 99th percentile.`, () => sample.p99)
  gauge('nodejs_eventloop_lag_max_seconds', `${lag}: maximum.`, () => sample.max)
  gauge('nodejs_eventloop_lag_seconds', 'Lag of the event loop now.', async () => {
    const askedAt = performance.now()
    await setImmediate()
    return (performance.now() - askedAt) / 1000
  })
  return () => void delays.disable()
}

/** Seconds. */
function cpu(kind: 'user' | 'system'): number {
  return process.cpuUsage()[kind] / 1e6
}

/** Bytes. */
function memory(kind: 'heapTotal' | 'heapUsed' | 'external'): number {
  return process.memoryUsage()[kind]
}
