import type { CannedAnswer } from '../canned-answer.ts'
import { lossForms, toolFailures } from '../loss-forms.ts'
import { seededRandom } from '../seeded-random.ts'
import type { Exchange } from './exchange.ts'
import type { Break, Fault, InjectedAction, InjectionRule, NamedFault } from './faults.ts'

export interface SeededFaultOptions {
  /** Share of the exchanges that get a fault, 0 to 1. @default 0.1 */
  readonly rate?: number | undefined
  /** Exchanges that may get a fault. @default all */
  readonly match?: ((exchange: Exchange) => boolean) | undefined
}

type Random = () => number

const pick = <Item>(items: readonly Item[], random: Random): Item => {
  const item = items[Math.floor(random() * items.length)]
  if (item === undefined) throw new RangeError('Nothing to pick from')
  return item
}
const numberBetween = (low: number, high: number, random: Random): number =>
  low + Math.floor(random() * (high - low + 1))

const html = (status: number, title: string): CannedAnswer => ({
  status,
  headers: { 'content-type': 'text/html' },
  body: `<html><head><title>${title}</title></head><body><h1>${status} ${title}</h1></body></html>`,
})
const htmlFailures: readonly CannedAnswer[] = [
  html(500, 'Internal Server Error'),
  html(502, 'Bad Gateway'),
  html(504, 'Gateway Time-out'),
]
const htmlRefusals = [...htmlFailures, html(503, 'Service Unavailable'), lossForms['404-html']]

/** Answers that a client may get before the server has seen the request. */
const refusals: readonly CannedAnswer[] = [
  ...Object.values(lossForms),
  ...Object.values(toolFailures),
  { status: 403, body: '{"error":"insufficient_scope"}' },
  { status: 408, headers: { connection: 'close' }, body: 'Request Time-out' },
]

/**
 * Answers that may replace the one of a server that has executed the request. None of them says
 * that nothing was executed, as "Method not found" does: no client could see through that lie.
 */
const lateFailures: readonly CannedAnswer[] = [
  ...Object.values(lossForms).filter(
    (form) => form.verdict === 'ambiguous' && form !== lossForms['404-32601'],
  ),
  ...Object.values(toolFailures),
  { status: 500, body: '{"error":"Session not found"}' },
  { status: 504, body: 'upstream request timeout' },
]

const refused = { type: 'answer', when: 'instead' } as const
const replaced = { type: 'answer', when: 'after-execution' } as const

const breakAnswer = (how: Break, random: Random): Fault => {
  const after = random() < 0.3 ? 'head' : numberBetween(1, 200, random)
  return { type: 'break-answer', how, after }
}

/** Each kind by its name, which `exchange.fault` gets, with the numbers that it draws. */
const catalogue: Readonly<Record<string, (random: Random) => Fault>> = {
  'reset-before': () => ({ type: 'break-request', how: 'reset', after: 'nothing' }),
  'close-before': () => ({ type: 'break-request', how: 'close', after: 'nothing' }),
  'reset-request': () => ({ type: 'break-request', how: 'reset', after: 'half' }),
  'reset-after': () => ({ type: 'break-answer', how: 'reset', after: 'nothing' }),
  'reset-answer': (random) => breakAnswer('reset', random),
  'close-answer': (random) => breakAnswer('close', random),
  'stall-before': () => ({ type: 'break-request', how: 'stall', after: 'nothing' }),
  'stall-request': () => ({ type: 'break-request', how: 'stall', after: 'half' }),
  'stall-after': () => ({ type: 'break-answer', how: 'stall', after: 'nothing' }),
  'stall-answer': (random) => breakAnswer('stall', random),
  split: (random) => ({ type: 'split', bytes: numberBetween(1, 64, random) }),
  'delay-request': (random) => ({ type: 'delay', requestMs: numberBetween(1, 100, random) }),
  'delay-answer': (random) => ({ type: 'delay', answerMs: numberBetween(1, 100, random) }),
  'truncate-events': () => ({ type: 'change-events', change: 'truncate' }),
  'repeat-events': () => ({ type: 'change-events', change: 'repeat' }),
  'reorder-events': () => ({ type: 'change-events', change: 'reorder' }),
  'repeat-answer': () => ({ type: 'repeat-answer' }),
  // A failure, before the server has seen the request.
  'answer-instead': (random) => ({ ...refused, answer: pick(refusals, random) }),
  // A failure, after the server has executed the request.
  'answer-after': (random) => ({ ...replaced, answer: pick(lateFailures, random) }),
  'html-instead': (random) => ({ ...refused, answer: pick(htmlRefusals, random) }),
  'html-after': (random) => ({ ...replaced, answer: pick(htmlFailures, random) }),
}

/**
 * A rule that gives faults to exchanges, of all kinds equally often. The fault is a function of the seed and the identity of the
 * exchange: its method, tool, argument `key`, and how many exchanges with the same ones came before.
 * Neither time nor the order between different identities changes it, so a seed repeats its faults.
 *
 * @throws {RangeError} when the rate is not between 0 and 1
 * @example
 * ```ts
 * import { seededFaults, startLegacyServer, startRecordingProxy } from '@x/mcp-testing'
 *
 * await using server = await startLegacyServer()
 * await using proxy = await startRecordingProxy(server.url)
 * proxy.inject(seededFaults(42, { rate: 0.2 })) // one exchange in five gets a fault
 * ```
 */
export function seededFaults(seed: number, options: SeededFaultOptions = {}): InjectionRule {
  const { rate = 0.1, match = () => true } = options
  if (!(rate >= 0 && rate <= 1)) throw new RangeError(`rate must be from 0 to 1, not ${rate}`)
  const occurrences = new Map<string, number>()
  const faultFor = (exchange: Exchange): NamedFault | undefined => {
    const { httpMethod, rpcMethod, toolName, key } = exchange
    const identity = JSON.stringify([httpMethod, rpcMethod, toolName, key])
    const occurrence = occurrences.get(identity) ?? 0
    occurrences.set(identity, occurrence + 1)
    const random = seededRandom(hash(`${seed} ${occurrence} ${identity}`))
    if (random() >= rate) return undefined
    const [name, draw] = pick(Object.entries(catalogue), random)
    return { ...draw(random), name }
  }

  /** Between `match` and `action`, which the proxy calls in turn for one exchange. */
  let chosen: InjectedAction = 'forward'
  return {
    match(exchange) {
      const fault = match(exchange) ? faultFor(exchange) : undefined
      if (fault !== undefined) chosen = fault
      return fault !== undefined
    },
    action: async () => chosen,
  }
}

/** 32-bit hash of a text: FNV-1a, with a last step that mixes high bits into low ones. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
  }
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35)
  return value ^ (value >>> 16)
}
