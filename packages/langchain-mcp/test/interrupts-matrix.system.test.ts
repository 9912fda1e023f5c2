import { temporaryFolder } from '@x/internal/testing'
// Every kind of graph, with every way in which a user interface may answer, in one process and across two.
import { startModernServer, type ModernServer } from '@x/mcp-testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { AskingGraphOptions, Turn } from './asking-graph.ts'
import type { Order, Told } from './asking-process.ts'
import { startGraph, type GraphProcess } from './graph-process.ts'

type Interrupt = Turn['interrupts'][number]

const kinds = [
  'createAgent',
  'fanOutToolCalls',
  'ToolNode',
  'subgraph',
  'sub-agent',
  'parallel sub-agents',
] as const satisfies readonly AskingGraphOptions['kind'][]

/** The ways to answer one question. */
const ways = {
  'key and id': (interrupt: Interrupt) => ({
    [idOf(interrupt)]: { key: interrupt.value.key, responses: responsesTo(interrupt) },
  }),
  key: (interrupt: Interrupt) => ({
    key: interrupt.value.key,
    responses: responsesTo(interrupt),
  }),
  id: (interrupt: Interrupt) => ({ [idOf(interrupt)]: { responses: responsesTo(interrupt) } }),
  plain: (interrupt: Interrupt) => ({ responses: responsesTo(interrupt) }),
}

const cases = kinds.flatMap((kind) =>
  (Object.keys(ways) as (keyof typeof ways)[]).flatMap((way) =>
    (['sync', 'exit'] as const).flatMap((durability) =>
      ['the same process', 'another process'].flatMap((where) =>
        // A plain node of several calls is never interrupted.
        [1, 2]
          .filter((calls) => calls === 1 || kind !== 'ToolNode')
          .map((calls) => ({ kind, way, durability, where, calls })),
      ),
    ),
  ),
)

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let server: ModernServer
let processes: readonly [GraphProcess, GraphProcess]
let threads = 0

beforeAll(async () => {
  folder = await temporaryFolder()
  server = await startModernServer()
  const start = (): Promise<GraphProcess> => startGraph(server.url, folder.path)
  processes = await Promise.all([start(), start()])
})

afterAll(async () => {
  for (const one of processes) await one[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

describe.each(cases)('$kind, $calls questions, answered by $way in $where ($durability)', (one) => {
  test('executes each call once, with its own answer', async () => {
    const thread = `t${++threads}`
    const names = one.calls === 1 ? ['Ada?'] : ['Ada?', 'Bob?']
    const order: Order = {
      kind: one.kind,
      calls: names.map((question) => ({ name: 'confirm', args: { question } })),
      thread,
      durability: one.durability,
      isWithoutStore: true,
    }
    const all = one.kind === 'parallel sub-agents' ? names.length * 2 : names.length
    const executed = server.executions('confirm')
    let turn = await ask(0, order)
    for (let steps = 1; turn.interrupts.length > 0; steps++) {
      if (steps > 12) throw new Error(`Asked for ever: ${JSON.stringify(turn.interrupts)}`)
      const [first] = turn.interrupts as [Interrupt]
      // What the interface does after it was refused: it answers as the question says.
      const isRefused = first.value.problem !== undefined
      const resume = isRefused ? ways['key and id'](first) : ways[one.way](first)
      const before = server.executions('confirm')
      turn = await ask(one.where === 'another process' ? steps % 2 : 0, { ...order, resume })
      // One answer is never taken for the question of another call.
      expect(server.executions('confirm') - before).toBeLessThanOrEqual(1)
    }
    expect(server.executions('confirm') - executed).toBe(all)
    for (const [index, name] of names.entries()) {
      expect(turn.answers[`call-${index}`]).toMatch(new RegExp(`^success: .*I am ${name}`))
    }
  })
})

test.each(Array.from({ length: 30 }, (_, seed) => seed + 290))(
  'ends after any sequence of answers (seed %i)',
  async (seed) => {
    const pick = picker(seed)
    const kind = pick(kinds)
    const tools = kind === 'ToolNode' ? 1 : pick([1, 2, 3])
    const names = Array.from({ length: tools }, () => pick(['confirm', 'ask_twice'] as const))
    const durability = pick(['sync', 'exit'] as const)
    const order: Order = {
      kind,
      calls: names.map((name, index) => ({
        name,
        args: name === 'confirm' ? { question: `Q${index}?` } : {},
      })),
      thread: `s${seed}-${++threads}`,
      durability,
      // At `exit` LangGraph may forget a `task()`, if several tasks take an answer without an id.
      isWithoutStore: durability === 'sync',
    }
    const rounds = { confirm: 2, ask_twice: 3 }
    const received = (): number =>
      server.ledger.received('confirm') + server.ledger.received('ask_twice')
    const before = received()
    const told: string[] = []
    let turn = await ask(pick([0, 1]), order)
    for (let steps = 0; turn.interrupts.length > 0; steps++) {
      const one = pick(turn.interrupts)
      const way = steps > 16 ? 'key and id' : pick(Object.keys(ways) as (keyof typeof ways)[])
      told.push(`${way}: ${one.value.key} ${one.value.history.join()}`)
      if (steps > 40) throw new Error(`Asked for ever: ${told.join('\n')}`)
      turn = await ask(pick([0, 1]), { ...order, resume: ways[way](one) })
    }
    const wanted = names.reduce((sum, name) => sum + rounds[name], 0)
    expect(received() - before).toBe(wanted * (kind === 'parallel sub-agents' ? 2 : 1))
    for (const answer of Object.values(turn.answers)) expect(answer).toMatch(/^success/)
  },
)

/** Picks elements, always the same for one seed. */
function picker(seed: number): <T>(from: readonly T[]) => T {
  let state = seed
  return function pick<T>(from: readonly T[]): T {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    const one = from[Math.floor((state / 2 ** 31) * from.length)]
    if (one === undefined) throw new Error('There is nothing to pick')
    return one
  }
}

async function ask(process: number, order: Order): Promise<Told> {
  const told = await processes[process]?.ask(order)
  if (told?.error !== undefined || told === undefined) throw new Error(told?.error)
  return told
}

function idOf({ id }: Interrupt): string {
  if (id === undefined) throw new Error('The interrupt has no id')
  return id
}

function responsesTo({ value }: Interrupt): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(value.requests).map(([key, { message }]) => [
      key,
      { action: 'accept', content: { value: `I am ${String(message)}` } },
    ]),
  )
}
