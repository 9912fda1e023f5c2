import type { Bench } from '../measure/figure.ts'
import { joined } from '../measure/rounds.ts'
import { callFigures } from './calls.ts'
import { cancelFigures } from './cancel.ts'
import { overheadFigures } from './overhead.ts'
import { startFigures } from './start.ts'
import { listenerFigures, sessionFigures } from './streams.ts'

/** The gateway beside other servers: calls, sessions, listeners, cancelled runs, overhead, start. */
export const benchGateway: Readonly<Record<string, Bench>> = {
  modern: (options) => callFigures('modern', options),
  legacy: (options) => callFigures('legacy', options),
  sessions: sessionFigures,
  listeners: listenerFigures,
  cancel: cancelFigures,
  overhead: async (options) =>
    joined([await overheadFigures('langgraph', options), await overheadFigures('a2a', options)]),
  start: startFigures,
}
