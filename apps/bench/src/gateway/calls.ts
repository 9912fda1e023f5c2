import { compareCosts } from '../measure/costs.ts'
import type { Row } from '../measure/costs.ts'
import type { BenchOptions, BenchResult } from '../measure/figure.ts'
import { joined } from '../measure/rounds.ts'
import { startServer } from './contender.ts'
import type { ServerName } from './contender.ts'
import { LATER_TOOL } from './protocol.ts'
import type { Era } from './protocol.ts'

/** The servers of an era, with the CPU bars. Mastra has no sessions, and FastMCP has nothing else. */
const ROWS: Readonly<Record<Era, readonly Row<ServerName>[]>> = {
  modern: [
    ['control', 'cpu'],
    ['sdk-v2', 'cpu'],
    ['gateway', 'cpu', 'sdk-v2', { atMost: 0.32 }],
    ['gateway-200', 'cpu', 'gateway', { atMost: 1.1 }],
    ['mastra', 'cpu', 'gateway', { atLeast: 1 }],
  ],
  legacy: [
    ['control', 'cpu'],
    ['sdk-v2', 'cpu'],
    ['gateway', 'cpu', 'sdk-v2', { atMost: 0.45 }],
    ['fastmcp', 'cpu', 'gateway', { atLeast: 1.8 }],
  ],
}

/** The same for tools that answer in a later turn of the event loop, which makes an event stream of most answers. */
const LATER_ROWS: Readonly<Record<Era, readonly Row<ServerName>[]>> = {
  modern: [
    ['control', 'cpu'],
    ['sdk-v2', 'cpu'],
    ['gateway', 'cpu', 'sdk-v2', { atMost: 0.45 }],
  ],
  legacy: [
    ['control', 'cpu'],
    ['sdk-v2', 'cpu'],
    ['gateway', 'cpu', 'sdk-v2', { atMost: 0.45 }],
    ['fastmcp', 'cpu', 'gateway', { atLeast: 1.8 }],
  ],
}

/** CPU time of the server for a call of a tool that answers in a later turn, beside other servers. */
export async function laterFigures(options: BenchOptions): Promise<BenchResult> {
  const [modern, legacy] = [
    await callFigures('modern', options, LATER_TOOL),
    await callFigures('legacy', options, LATER_TOOL),
  ]
  return joined([modern, legacy])
}

/**
 * CPU time of the server for one tool call, beside other servers.
 *
 * @param tool that is called. @default the echo tools, in turn
 */
export async function callFigures(
  era: Era,
  options: BenchOptions,
  tool?: string,
): Promise<BenchResult> {
  await using stack = new AsyncDisposableStack()
  const compared = (tool === undefined ? ROWS : LATER_ROWS)[era]
  const names = compared.map(([name]) => name)
  const started = names.map(async (name) => {
    const profileTo = name === 'gateway' ? options.profileTo : undefined
    const { server, load } = stack.use(await startServer(name, profileTo))
    const measure = async (times: number) => {
      const before = await server.call('cpu')
      const wallUs = await load.call('calls', era, times, ...(tool === undefined ? [] : [tool]))
      return { times, cpuUs: (await server.call('cpu')) - before, wallUs }
    }
    return [name, { times: 500, warmUp: 6000, measure }] as const
  })
  const contenders = Object.fromEntries(await Promise.all(started))
  const rows = [...compared, ...names.map((name) => [name, 'rate'] as const)]
  const label = tool === undefined ? era : `later/${era}`
  return await compareCosts({ label, contenders, control: 'control', turns: 4, rows }, options)
}
