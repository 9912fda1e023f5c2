import { comparedFigure, plainFigure } from '../measure/figure.ts'
import type { Bench } from '../measure/figure.ts'
import { compareCalls, startProcess, startServer } from './compare.ts'

/** Limit of our calls per second, as a multiple of those of `@langchain/mcp-adapters`. */
const RATE_BAR = { atLeast: 4 }
/** Limit of our CPU time, as a multiple of `McpClient.callTool`. */
const CPU_BAR = { atMost: 1.4 }

const PEER = 'langchain-mcp-adapters'

/** LangChain tools beside those of `@langchain/mcp-adapters`; and the code that a call runs through. */
export const benchTools: Readonly<Record<string, Bench>> = {
  async calls(options) {
    await using server = await startServer()
    const url = `${server.origin}/json`
    return await compareCalls(
      {
        participants: {
          control: { contender: 'undici-request', url, speed: 'fast' },
          client: { contender: 'mcp-client', url, speed: 'fast' },
          'ours-live': { contender: 'tools-live', url, speed: 'fast', isOurs: true },
          'ours-cached': { contender: 'tools-cached', url, speed: 'fast', isOurs: true },
          [PEER]: { contender: 'adapters', url, speed: 'slow' },
        },
        control: 'control',
        workloads: { 'calls-16': 16 },
        figures: ({ cpu, rate }) => {
          const ours = ['ours-live', 'ours-cached'] as const
          return [
            plainFigure(cpu('control')),
            comparedFigure(cpu('client'), cpu('control')),
            ...ours.map((name) => comparedFigure(cpu(name), cpu('client'), CPU_BAR)),
            comparedFigure(cpu(PEER), cpu('client')),
            plainFigure(rate(PEER)),
            ...ours.map((name) => comparedFigure(rate(name), rate(PEER), RATE_BAR)),
          ]
        },
      },
      options,
    )
  },
  async path({ progress }) {
    progress('path')
    await using server = await startServer()
    await using worker = startProcess('tools-live', [`${server.origin}/json`])
    const figures = Object.entries(await worker.call('path')).map(([name, count]) =>
      plainFigure({ name: `path/${name}`, unit: 'before undici', values: [count] }),
    )
    return { figures, invalid: [] }
  },
}
