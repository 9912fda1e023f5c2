import { expect, test } from 'vitest'

import { AgentsAtHand, type Behaviour } from '../../test/agents-at-hand.ts'
import { CLIENT_KINDS, connect } from '../../test/mcp-clients.ts'
import { eventsOf, get, inSession, openSession } from '../../test/rpc-requests.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { createGateway } from '../gateway.ts'
import { auditObserver, gatewayLog, toGatewayLogger } from './logger.ts'

const TOKEN = 'the-token-of-ada-0123456789'
const QUESTION = 'what is the salary of the director'
const ANSWER = 'one hundred thousand, before tax'
const FILE = 'salaries-of-all.csv'

const tell: Behaviour = function* telling() {
  yield { type: 'status', text: 'looking into the payroll' }
  yield { type: 'text', text: ANSWER }
  yield { type: 'file', file: { name: FILE, data: Buffer.from(ANSWER) } }
  yield { type: 'done' }
}

const refuse: Behaviour = ({ input }) => [
  { type: 'failed', reason: input.kind === 'message' ? `I will not say ${input.text}` : 'No' },
]

test.each(CLIENT_KINDS)(
  'writes no text of calls and no credential at level trace (%s)',
  async (kind) => {
    let log = ''
    const output = { write: (line: string) => void (log += line) }
    const all = gatewayLog('debug', output)
    const auth = bearerAuth({ ada: { token: TOKEN, scopes: ['*'] } })
    const headers = { authorization: `Bearer ${TOKEN}` }
    await using gateway = createGateway({
      sources: [new AgentsAtHand({ tell, refuse })],
      auth,
      observer: auditObserver(all),
      log: toGatewayLogger(all),
    })
    const { url } = await gateway.listen({ port: 0 })
    const fetchHere = (request: Request): Promise<Response> => gateway.fetch(request)
    const session = await openSession(fetchHere, headers)
    const listening = eventsOf(await fetchHere(get(inSession(session, headers))))
    await using client = await connect(kind, url, { headers })
    const result = await client.callTool('tell', QUESTION)
    await client.callTool('refuse', QUESTION)
    await client.callTool(QUESTION, QUESTION).catch(() => undefined)
    await fetch(url, { method: 'POST', headers: { authorization: `Bearer ${TOKEN}x` } })
    const [scope = 'no file'] = /(?<=artifact:\/\/)\w+/.exec(JSON.stringify(result)) ?? []
    await fetch(new URL(`/artifacts/${scope}/${FILE}`, url), { headers })
    const name = `mine-${FILE}`
    await fetch(new URL(`/artifacts/${name}`, url), { method: 'PUT', body: ANSWER, headers })
    await listening.return(undefined)
    await gateway.close()
    expect(scope).toHaveLength(26)
    const outcomes = log.match(/"action":"\w+"/g) ?? []
    expect(new Set(outcomes)).toEqual(
      new Set(['call', 'sign_in', 'download', 'upload'].map((each) => `"action":"${each}"`)),
    )
    for (const secret of [TOKEN, ANSWER, 'payroll', FILE, scope, session, 'I will not say']) {
      expect(log).not.toContain(secret)
    }
    // But for the name of a tool that is none, which is what was asked for.
    expect(log.replaceAll(`"tool":"${QUESTION}"`, '')).not.toContain(QUESTION)
  },
)
