// The graph whose executions the scenarios with gateways count.
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { interrupt, StateGraph } from '@langchain/langgraph'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import type { GraphDefinition } from '@x/mcp-gateway'
import { z } from 'zod'

/** Nodes with a side effect, in their order. */
export const NODES: readonly string[] = ['reserve', 'charge', 'confirm']

/** Execution of a node with a side effect. */
export interface Effect {
  /** Key of the call. */
  readonly key: string
  readonly node: string
  /** Process that executed it. */
  readonly pid: number
}

const State = z.object({ key: z.string(), ms: z.number(), asks: z.boolean(), answer: z.string() })

/** Notes an execution, and works for a time. @param folder that of all processes */
export async function execute(
  folder: string,
  node: string,
  { key, ms }: PaymentTime,
): Promise<void> {
  appendFileSync(join(folder, 'effects'), `${key} ${node} ${process.pid}\n`)
  await sleep(ms)
}

interface PaymentTime {
  readonly key: string
  readonly ms: number
}

/** Returns the executions of a line each, in their order. */
export function effectsIn(text: string): readonly Effect[] {
  return text.split('\n').flatMap((line) => {
    const [key = '', node = '', pid] = line.split(' ')
    return pid === undefined ? [] : [{ key, node, pid: Number(pid) }]
  })
}

/** Offers a graph of three nodes with a side effect each, with a question after the first one, and perhaps a receipt. */
export function paymentAgent(folder: string, hasReceipt = false): GraphDefinition {
  const effect = (node: string) => async (state: PaymentTime) => {
    await execute(folder, node, state)
    return {}
  }
  const graph = new StateGraph({
    state: State.partial({ answer: true }),
    input: State.omit({ answer: true }),
  })
    .addNode('reserve', effect('reserve'))
    .addNode('ask', ({ asks, key }) => ({
      answer: asks ? String(interrupt(`Which card for ${key}?`)) : 'none',
    }))
    .addNode('charge', effect('charge'))
    .addNode('confirm', async (state, { writer }) => {
      await execute(folder, 'confirm', state)
      const { key } = state
      if (hasReceipt) {
        writer?.({ type: 'artifact', name: `${key}.txt`, mimeType: 'text/plain', text: key })
      }
      return {}
    })
    .addEdge('__start__', 'reserve')
    .addEdge('reserve', 'ask')
    .addEdge('ask', 'charge')
    .addEdge('charge', 'confirm')
    .compile({ checkpointer: new SqliteSaver(join(folder, 'gateway.db')) })
  return {
    graph,
    description: 'Pays once',
    output: ({ key, answer }: { readonly key: string; readonly answer?: string | undefined }) =>
      `${key} paid with ${answer}`,
  }
}

/** A worker renews its lock each 2.5 s, and loses it after 5 s. */
const LATE_MS = 1500

/** Calls a function when this process did not run for a while: its tasks may go to another worker. */
export function watchDelay(onLate: () => void): void {
  let last = performance.now()
  setInterval(() => {
    const now = performance.now()
    if (now - last > LATE_MS) onLate()
    last = now
  }, 250).unref()
}
