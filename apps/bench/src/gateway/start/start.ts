import { fileURLToPath } from 'node:url'
import type { BenchOptions, BenchResult } from '../../bench/bench-result.ts'
import { steadyRounds } from '../../bench/steady-rounds.ts'
import { Worker } from '../../bench/worker.ts'
import { agentFolder } from './agent-folder.ts'
import { builtCommand } from './built-command.ts'
import { START_CASES } from './start-case.ts'
import type { StartCase, StartName } from './start-case.ts'
import { figuresOf } from './start-figures.ts'
import type { Round, Start } from './start-figures.ts'
import { StartedServer } from './started-server.ts'

const BARE_SERVER = fileURLToPath(new URL('bare-server.mjs', import.meta.url))
/** How far the control of a round may be from its median before the machine was too busy to measure. */
const CONTROL_MOVES = 0.25
/** Fewer say nothing. */
const MIN_ROUNDS = 5
const MIB = 1024 * 1024

/** From the start of the built command until it answers, and what it then holds; in turns with bare servers. */
export async function startFigures({ rounds, progress }: BenchOptions): Promise<BenchResult> {
  if (process.platform !== 'linux') {
    return { figures: [], invalid: ['starts are measured on Linux, which tells CPU time'] }
  }
  progress('start: build')
  const command = await builtCommand()
  const most = Math.max(...START_CASES.map(({ count }) => count))
  await using remote = Worker.start({
    command: ['src/gateway/servers/a2a-process.ts', String(most)],
    core: 1,
  })
  const cards = urlsFrom(await remote.ask({ what: 'urls' }))
  async function take(attempt: number): Promise<Round> {
    progress(`start: round ${attempt}`)
    const round = new Map<StartName, Start>()
    for (const each of START_CASES) round.set(each.name, await startOf(each, { command, cards }))
    return round
  }
  await take(0) // files come from the disk
  const steady = await steadyRounds(take, {
    wanted: rounds,
    within: CONTROL_MOVES,
    control: (round) => round.get('node')?.healthMs ?? Number.NaN,
  })
  if (steady.length < MIN_ROUNDS) {
    const reason = `only ${steady.length} rounds had a steady control for starts`
    return { figures: [], invalid: [reason] }
  }
  return { figures: figuresOf(steady), invalid: [] }
}

function urlsFrom(value: unknown): readonly string[] {
  if (!Array.isArray(value)) throw new TypeError('A worker did not tell where its agents are')
  return value.map(String)
}

async function startOf(
  each: StartCase,
  { command, cards }: { readonly command: string; readonly cards: readonly string[] },
): Promise<Start> {
  await using folder = await agentFolder(each, cards)
  const loaded = each.agents === undefined ? [] : [folder.graph]
  const args = each.isGateway
    ? [command, 'serve', folder.config, '--port', '0', '--log-level', 'silent']
    : [BARE_SERVER, ...loaded]
  await using server = await StartedServer.start(args)
  const healthMs = await server.healthMs()
  const listMs = each.isGateway ? await server.listMs(each.count) : Number.NaN
  const { cpuUs } = await server.usage()
  const idleMiB = (await server.idleRssBytes()) / MIB
  return { healthMs, listMs, cpuMs: cpuUs / 1000, idleMiB }
}
