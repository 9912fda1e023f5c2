// One of several processes that are one gateway. Takes commands, a line each, and tells what its agents see;
// ends with its input, or killed.
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { systemClock, type Clock } from '../src/internal/clock.ts'
import { createGateway } from '../src/gateway.ts'
import type { AgentCall, AgentUpdate } from '../src/agents/agent.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'
import { redisStore } from './redis-store.ts'
import type { ReplicaSettings } from './replica.ts'

const { redis, prefix, sessions, requestsPerMinute }: ReplicaSettings = JSON.parse(
  process.argv[2] ?? '{}',
)

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

let finish: (() => void) | undefined

/** Sends one text, and a second one after the command `finish`. */
async function* slow({ signal }: AgentCall): AsyncGenerator<AgentUpdate> {
  say('called slow')
  signal.addEventListener('abort', () => say('aborted slow'))
  yield { type: 'text', text: 'begun' }
  await new Promise<void>((resolve, reject) => {
    finish = resolve
    signal.addEventListener('abort', () => reject(new Error('aborted')))
  })
  yield { type: 'text', text: ' and finished' }
  yield { type: 'done' }
}

/** Needs some time, so that there are always calls in flight. */
async function* counted({ input }: AgentCall): AsyncGenerator<AgentUpdate> {
  const message = input.kind === 'message' ? input.text : ''
  say(`ran ${message}`)
  await sleep(30)
  yield { type: 'done', text: `Counted ${message}` }
}

function* shop({ resume }: AgentCall): Generator<AgentUpdate> {
  say(resume ? 'resumed shop' : 'called shop')
  const { q } = resume?.answers ?? {}
  if (q?.action === 'accept') yield { type: 'done', text: `Size ${String(q.content['answer'])}` }
  else {
    yield { type: 'asked', questions: [{ id: 'q', message: 'Which size?' }], state: { n: 1 } }
  }
}

function* files(): Generator<AgentUpdate> {
  const data = Buffer.from('It was made before the process died.')
  yield { type: 'file', file: { name: 'report.txt', mimeType: 'text/plain', data } }
  yield { type: 'done', text: 'Made' }
}

const DRAIN_DELAY_MS = 987_654
let isDrained = false
let onDrained: (() => void) | undefined
/** Its drain delay ends with the command `drained`, not with a time. */
const clock: Clock = {
  now: () => systemClock.now(),
  after(ms, callback) {
    if (ms !== DRAIN_DELAY_MS) return systemClock.after(ms, callback)
    if (isDrained) callback()
    else onDrained = callback
    return () => {}
  },
}

const agents = new AgentsAtHand({ counted, echo, slow, shop, files })
const store = redisStore({ url: redis, prefix, timeoutMs: 300_000 })
const gateway = createGateway({
  sources: [agents],
  auth: bearerAuth({
    ada: { token: 'token-of-ada-0123456789', scopes: ['*'] },
    bob: { token: 'token-of-bob-0123456789', scopes: ['*'] },
  }),
  store,
  sessions,
  requestsPerMinute,
  http: { drainDelayMs: DRAIN_DELAY_MS },
  clock,
  stateKey: 'the same in all processes, and long enough',
  log: false,
  observer: { warned: (message) => say(`warned ${message}`) },
})
const { port } = await gateway.listen({ port: 0 })
say(`port ${port}`)

for await (const line of createInterface({ input: process.stdin })) {
  const [command, name = ''] = line.split(' ')
  if (command === 'join') agents.join(name, echo)
  if (command === 'finish') finish?.()
  if (command === 'close') void gateway.close()
  if (command === 'drained') {
    isDrained = true
    onDrained?.()
  }
}
await gateway.close()
await store.close()
