import type { Bar, Figure } from '../../bench/figure.ts'
import { comparedFigure, plainFigure } from '../../client/figure-of.ts'
import type { Measured } from '../../client/figure-of.ts'
import type { StartName } from './start-case.ts'

/** What one start took. */
export interface Start {
  /** Until its health was told, from before its process was there. */
  readonly healthMs: number
  /** Until its tools were told; NaN for what has none. */
  readonly listMs: number
  /** CPU time until then. */
  readonly cpuMs: number
  readonly idleMiB: number
}

/** A start of each, one after the other. */
export type Round = ReadonlyMap<StartName, Start>

const HEALTH_BAR: Bar = { atMost: 400 }
const MEMORY_BAR: Bar = { atMost: 110 }

export function figuresOf(rounds: readonly Round[]): readonly Figure[] {
  const measured = (who: StartName, kind: Kind): Measured => ({
    name: `start/${who}/${kind}`,
    unit: UNITS[kind],
    values: rounds.map((round) => VALUES[kind](startIn(round, who))),
  })
  const health = (who: StartName): Measured => measured(who, 'healthz')
  const cpu = (who: StartName): Measured => measured(who, 'cpu')
  const rss = (who: StartName): Measured => measured(who, 'idle-rss')
  return [
    plainFigure(health('node')),
    plainFigure(health('graph'), HEALTH_BAR),
    plainFigure(measured('graph', 'tools-list')),
    plainFigure(health('node-langgraph')),
    plainFigure(health('langgraph'), HEALTH_BAR),
    comparedFigure(measured('langgraph', 'tools-list'), health('node-langgraph')),
    plainFigure(cpu('node')),
    comparedFigure(cpu('graph'), cpu('node')),
    plainFigure(cpu('node-langgraph')),
    comparedFigure(cpu('langgraph'), cpu('node-langgraph')),
    plainFigure(rss('node')),
    plainFigure(rss('graph-50'), MEMORY_BAR),
    plainFigure(rss('a2a-50'), MEMORY_BAR),
    plainFigure(rss('node-langgraph')),
    comparedFigure(rss('langgraph-50'), rss('node-langgraph')),
  ]
}

/** @throws Error for one that took no part */
function startIn(round: Round, name: StartName): Start {
  const start = round.get(name)
  if (start === undefined) throw new Error(`${name} took no part in a round`)
  return start
}

type Kind = 'healthz' | 'tools-list' | 'cpu' | 'idle-rss'

const UNITS: Readonly<Record<Kind, string>> = {
  healthz: 'ms until it is told',
  'tools-list': 'ms until it is told',
  cpu: 'ms CPU until then',
  'idle-rss': 'MiB',
}

const VALUES: Readonly<Record<Kind, (start: Start) => number>> = {
  healthz: ({ healthMs }) => healthMs,
  'tools-list': ({ listMs }) => listMs,
  cpu: ({ cpuMs }) => cpuMs,
  'idle-rss': ({ idleMiB }) => idleMiB,
}
