import { inspect } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** One attack, and the check of what it did. */
export interface Probe {
  readonly name: string
  /** Attacks. Resolves to what was seen if the gateway does not hold, else to `undefined`. */
  readonly run: () => Promise<string | undefined>
}

/** Makes a probe. @param holds returns whether the gateway held, from what the action saw */
export function probe<Seen>(
  name: string,
  act: () => Seen | Promise<Seen>,
  holds: (seen: Seen) => boolean,
): Probe {
  return {
    name,
    run: async () => {
      const seen = await act()
      return holds(seen) ? undefined : shown(seen)
    },
  }
}

/** Probes of one kind. */
export interface Kind {
  readonly name: string
  /** The property that must hold, as a sentence. */
  readonly rule: string
  /** Starts what the probes attack, and leaves its end to `stack`. */
  prepare(stack: AsyncDisposableStack): Promise<KindProbes>
}

export interface KindProbes {
  readonly probes: readonly Probe[]
  /** Requests of honest clients, made after all probes: an attack must not cost them anything. */
  readonly honest: readonly Probe[]
  /** Targets that this machine lacks. */
  readonly leftOut?: string | undefined
}

export interface FailedProbe {
  readonly name: string
  /** The observation that contradicts the property. */
  readonly seen: string
}

export interface KindReport {
  readonly name: string
  readonly probes: number
  readonly failed: readonly FailedProbe[]
  readonly heapMiB: number
  readonly leftOut?: string | undefined
}

/** Growth of the heap that compiled code and caches with a limit may need. Bytes. */
const MAX_GROWTH = 64 * 1024 * 1024
const MEMORY = 'the heap returns to its size'
const END = 'everything that was started ends'
const MAX_SHOWN = 600

/** Runs all probes of a kind, one after the other. @param onBegin is called before each probe */
export async function runKind(kind: Kind, onBegin: (name: string) => void): Promise<KindReport> {
  const failed: FailedProbe[] = []
  let count = 0
  const attempt = async ({ name, run }: Probe): Promise<void> => {
    onBegin(name)
    count++
    const seen = await run().catch((error: unknown) => `it threw ${shown(error)}`)
    if (seen !== undefined) failed.push({ name, seen })
  }
  const stack = new AsyncDisposableStack()
  let leftOut: string | undefined
  let growth = 0
  onBegin('start')
  try {
    const made = await kind.prepare(stack)
    leftOut = made.leftOut
    for (const each of made.honest) await attempt({ ...each, name: `before: ${each.name}` })
    const before = heapBytes()
    for (const each of made.probes) await attempt(each)
    for (const each of made.honest) await attempt({ ...each, name: `after: ${each.name}` })
    growth = heapBytes() - before
    const grown = `${toMiB(growth)} MiB more than before`
    await attempt({ name: MEMORY, run: async () => (growth > MAX_GROWTH ? grown : undefined) })
  } finally {
    await attempt({ name: END, run: () => stack.disposeAsync().then(() => undefined) })
  }
  return { name: kind.name, probes: count, failed, heapMiB: toMiB(growth), leftOut }
}

function toMiB(bytes: number): number {
  return Math.round(bytes / 1024 / 1024)
}

setFlagsFromString('--expose-gc')
const collectGarbage: unknown = runInNewContext('gc')

function heapBytes(): number {
  if (typeof collectGarbage === 'function') collectGarbage()
  return process.memoryUsage().heapUsed
}

function shown(seen: unknown): string {
  const text = typeof seen === 'string' ? seen : inspect(seen, { depth: 4, breakLength: 120 })
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`
}
