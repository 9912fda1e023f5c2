import type { Contender } from './contender.ts'
import {
  checkAnswer,
  checkEvent,
  EVENTS,
  MIB_TEXT,
  notificationOf,
  requestOf,
  TEXT,
} from './messages.ts'
import type { Answer } from './messages.ts'

/** The number is how many calls are in flight at any time; one where there is none. */
export type WorkloadName = 'json' | 'json-16' | 'sse' | 'sse-16' | 'mib' | 'stream' | 'notify'

export interface Workload {
  /** Where the server does it. */
  readonly path: `/${Answer}`
  /** What the cost is told by: a call, an event. */
  readonly unit: string
  /** Does it `times` times, one after the other, and checks every answer. Returns how many units. */
  run(contender: Contender, times: number): Promise<number>
}

let lastId = 1

/** Makes `times` calls, of which `atOnce` are in flight at any time. */
async function calls(
  contender: Contender,
  { times, text, atOnce = 1 }: { times: number; text: string; atOnce?: number },
): Promise<number> {
  let left = times
  async function lane(): Promise<void> {
    while (left-- > 0) {
      const id = ++lastId
      checkAnswer(await contender.call(requestOf(id)), id, text)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return times
}

function callsTo(
  path: Workload['path'],
  options: { readonly text: string; readonly atOnce?: number },
): Workload {
  return { path, unit: 'call', run: (contender, times) => calls(contender, { ...options, times }) }
}

export const WORKLOADS: Readonly<Record<WorkloadName, Workload>> = {
  json: callsTo('/json', { text: TEXT }),
  'json-16': callsTo('/json', { text: TEXT, atOnce: 16 }),
  sse: callsTo('/sse', { text: TEXT }),
  'sse-16': callsTo('/sse', { text: TEXT, atOnce: 16 }),
  mib: callsTo('/mib', { text: MIB_TEXT }),
  stream: {
    path: '/stream',
    unit: 'event',
    async run(contender, times) {
      for (let count = 0; count < times; count += 1) {
        const id = ++lastId
        let events = 0
        const answer = await contender.call(requestOf(id), (message) => {
          checkEvent(message, events)
          events += 1
        })
        checkAnswer(answer, id, TEXT)
        if (events !== EVENTS) throw new Error(`${events} events instead of ${EVENTS}`)
      }
      return times * EVENTS
    },
  },
  notify: {
    path: '/json',
    unit: 'notification',
    async run(contender, times) {
      for (let count = 0; count < times; count += 1) await contender.notify(notificationOf(count))
      return times
    },
  },
}

export function workloadFrom(text: unknown): Workload {
  for (const [name, workload] of Object.entries(WORKLOADS)) if (name === text) return workload
  throw new TypeError(`There is no workload "${String(text)}"`)
}
