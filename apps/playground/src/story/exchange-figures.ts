import type { ExchangeMark } from '@x/mcp-testing'

/** The first question to a server of which nothing is known is of which kind it is. */
export const FIRST_CALL = {
  'server/discover': 1,
  initialize: 1,
  initialized: 1,
  'tools/call': 1,
  POSTs: 4,
}

/** The lost session costs the refused call and one handshake. */
export const HEALED = {
  'server/discover': 0,
  initialize: 1,
  initialized: 1,
  refused: 1,
  'tools/call': 2,
  POSTs: 4,
}

/** Calls in a session that is there already. */
export function calls(count: number): Record<string, number> {
  return { 'server/discover': 0, initialize: 0, initialized: 0, 'tools/call': count, POSTs: count }
}

/** What went over the wire since the mark. GET streams are counted apart: they carry no request. */
export function handshakes(mark: ExchangeMark): Record<string, number> {
  return {
    'server/discover': mark.count({ rpcMethod: 'server/discover' }),
    initialize: mark.count({ rpcMethod: 'initialize' }),
    initialized: mark.count({ rpcMethod: 'notifications/initialized' }),
    'tools/call': mark.count({ rpcMethod: 'tools/call' }),
    POSTs: mark.count({ httpMethod: 'POST' }),
    'GET streams': mark.count({ httpMethod: 'GET' }),
  }
}

/** The same, and the POSTs that the server refused. */
export function healing(mark: ExchangeMark): Record<string, number> {
  const refused = mark
    .exchanges()
    .filter(({ httpMethod, status }) => httpMethod === 'POST' && (status ?? 0) >= 400)
  return { ...handshakes(mark), refused: refused.length }
}

/** All that a session is in the end: opened, used, and ended. */
export function wholeSession(mark: ExchangeMark): Record<string, number> {
  return {
    initialize: mark.count({ rpcMethod: 'initialize' }),
    initialized: mark.count({ rpcMethod: 'notifications/initialized' }),
    'tools/call': mark.count({ rpcMethod: 'tools/call' }),
    'session ids': sessionIds(mark),
    DELETE: mark.count({ httpMethod: 'DELETE' }),
  }
}

/** What a client does that has no session. */
export function stateless(mark: ExchangeMark): Record<string, number> {
  return {
    'server/discover': mark.count({ rpcMethod: 'server/discover' }),
    initialize: mark.count({ rpcMethod: 'initialize' }),
    'tools/call': mark.count({ rpcMethod: 'tools/call' }),
    'listen streams': mark.count({ rpcMethod: 'subscriptions/listen' }),
    'session ids': sessionIds(mark),
  }
}

function sessionIds(mark: ExchangeMark): number {
  return new Set(mark.exchanges().flatMap(({ sessionId }) => sessionId ?? [])).size
}
