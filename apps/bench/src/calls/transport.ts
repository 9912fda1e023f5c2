import { comparedFigure, plainFigure } from '../measure/figure.ts'
import type { Bench } from '../measure/figure.ts'
import { compareCalls, startServer } from './compare.ts'

/** Limit of our CPU time, as a multiple of a bare dispatch. */
const TO_BARE = { atMost: 1.3 }
/** Limit of the CPU time of the SDK's transport, as a multiple of ours. */
const STOCK_TO_OURS = { atLeast: 5 }

/** CPU time of a POST with our transport, beside a bare dispatch of undici and the transport of SDK v1. */
export const benchTransport: Readonly<Record<string, Bench>> = {
  json: (options) => measure('json', options),
  sse: (options) => measure('sse', options),
}

async function measure(answer: 'json' | 'sse', options: Parameters<Bench>[0]): ReturnType<Bench> {
  await using server = await startServer()
  const url = `${server.origin}/${answer}`
  const modern = `${server.origin}/modern/${answer}`
  return await compareCalls(
    {
      participants: {
        bare: { contender: 'dispatch', url, speed: 'fast' },
        ours: { contender: 'transport', url, speed: 'fast', isOurs: true },
        modern: { contender: 'transport', url: modern, speed: 'fast' },
        stock: { contender: 'sdk-v1-transport', url, speed: 'slow' },
      },
      control: 'bare',
      // With one call in flight, all contenders also pay for falling asleep and waking up.
      workloads: { [answer]: 1, [`${answer}-16`]: 16 },
      figures: ({ workload, cpu }) => {
        const named = (name: 'bare' | 'ours' | 'modern' | 'stock') => ({
          ...cpu(name),
          name: `${workload}/${name}`,
        })
        return [
          plainFigure(named('bare')),
          comparedFigure(named('ours'), named('bare'), TO_BARE),
          comparedFigure(named('modern'), named('bare'), TO_BARE),
          comparedFigure(named('stock'), named('ours'), STOCK_TO_OURS),
        ]
      },
    },
    options,
  )
}
