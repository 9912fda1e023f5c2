// The command `pnpm probe`.
import { inspect, parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { KINDS } from './kinds.ts'
import type { FailedProbe, KindReport } from './probe.ts'
import type { Progress } from './worker.ts'

const HELP = `Attacks gateways on this machine as hostile clients, agents and web pages do. Each probe is one attack.

  pnpm probe [options]

  --only <kind>  only the probes of one kind:
${KINDS.map(({ name, rule }) => `                   ${name.padEnd(18)} ${rule}`).join('\n')}
  --json         print one JSON object as the last line
  --help         print this text

Exit codes: 0 all probes hold, 1 one does not hold, 2 the command line is wrong, 130 ended by a signal.
`
/** A probe that takes longer has made a gateway hang, or keeps its process busy. */
const HANG_MS = 120_000

class UsageError extends Error {}

async function main(): Promise<boolean> {
  const { json = false, help = false, only } = parseCommandLine()
  if (help) {
    process.stdout.write(HELP)
    return true
  }
  const names = KINDS.map(({ name }) => name)
  if (only !== undefined && !names.includes(only)) {
    throw new UsageError(`--only must be one of ${names.join(', ')}, not "${only}"`)
  }
  const { kinds, ended } = await run(only === undefined ? names : [only])
  const failed = [...kinds.flatMap((kind) => kind.failed), ...(ended ? [ended] : [])]
  const probes = kinds.reduce((sum, kind) => sum + kind.probes, 0)
  const ok = failed.length === 0
  if (ended) printFailure(ended)
  const count = `${probes} probes of ${kinds.length} kinds`
  console.log(`\n${count}: ${ok ? 'all hold' : `${failed.length} do not hold`}`)
  if (json) console.log(JSON.stringify({ ok, probes, failed: failed.length, kinds, ended }))
  return ok
}

interface Run {
  readonly kinds: readonly KindReport[]
  /** The error that stopped the run. */
  readonly ended: FailedProbe | undefined
}

/** Runs the kinds in another thread, and prints each report. */
function run(names: readonly string[]): Promise<Run> {
  const kinds: KindReport[] = []
  let now = 'start'
  const { promise, resolve } = Promise.withResolvers<Run>()
  const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: names })
  const stop = (seen: string): void => resolve({ kinds, ended: { name: now, seen } })
  const late = (): void => stop(`it did not end within ${HANG_MS / 1000} s`)
  let timer = setTimeout(late, HANG_MS)
  worker.on('message', (message: Progress) => {
    clearTimeout(timer)
    timer = setTimeout(late, HANG_MS)
    if ('report' in message) {
      kinds.push(message.report)
      print(message.report)
    } else now = `${message.kind}: ${message.probe}`
  })
  // Also an error that nothing handled: it would end a process.
  worker.on('error', (error) => stop(`the process would have ended: ${inspect(error)}`))
  worker.on('exit', () => {
    if (kinds.length === names.length) resolve({ kinds, ended: undefined })
    else stop('the thread ended')
  })
  return promise.finally(async () => {
    clearTimeout(timer)
    await worker.terminate()
  })
}

function print({ name, probes, failed, heapMiB, leftOut }: KindReport): void {
  const state = failed.length === 0 ? 'ok' : `${failed.length} WRONG`
  console.log(
    `${state.padStart(9)}  ${name.padEnd(18)} ${probes} probes, heap ${heapMiB} MiB larger`,
  )
  if (leftOut !== undefined) console.log(`           left out: ${leftOut}`)
  for (const each of failed) printFailure(each)
}

function printFailure({ name, seen }: FailedProbe): void {
  console.log(`           "${name}" saw: ${seen.replaceAll('\n', '\n           ')}`)
}

function parseCommandLine() {
  const args = process.argv.slice(2).filter((arg) => arg !== '--') // pnpm passes it on
  const flag = { type: 'boolean' } as const
  try {
    const options = { only: { type: 'string' }, json: flag, help: flag } as const
    return parseArgs({ args, options }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error })
  }
}

/** Ends the command and its thread at once. Child processes end with their channels. */
function end(reason: string, exitCode: number): never {
  process.stderr.write(`${reason}\n`)
  if (process.argv.includes('--json')) console.log(JSON.stringify({ ok: false, error: reason }))
  process.exit(exitCode)
}

for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.once(name, () => end(`Ended by ${name}`, 130))
}
try {
  process.exitCode = (await main()) ? 0 : 1
} catch (error) {
  if (error instanceof UsageError) end(`${error.message}. See pnpm probe --help`, 2)
  end(inspect(error), 1)
}
