// Schemas of agents, and arguments that are made for them. Each check must end at once: see the limit of a probe.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AgentUpdate } from '@x/mcp-gateway'
import { at, modern, SHOWS_FORMS, textOf, type Answer, type Json } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { honestClients, startTarget, type Target } from '../target.ts'

const list = (count: number, item: (n: number) => unknown): unknown =>
  Array.from({ length: count }, (_, n) => item(n))

/** Puts a value into itself. */
function nested(levels: number, wrap: (inner: unknown) => unknown, leaf: unknown = {}): unknown {
  let value = leaf
  for (let level = 0; level < levels; level++) value = wrap(value)
  return value
}

/** A recursive schema whose alternatives differ only behind their inner trees. */
const tree = (union: string): Json => {
  const node = (op: string) => ({
    properties: { left: { $ref: '#/$defs/tree' }, op: { const: op } },
  })
  return { $ref: '#/$defs/tree', $defs: { tree: { [union]: [node('a'), node('b'), node('c')] } } }
}
const deepTree = nested(60, (left) => ({ left, op: 'c' }), { op: 'c' })

/** Schemas of one argument, and a value that needs the most work. */
const SLOW: Readonly<Record<string, readonly [schema: Json, value: unknown]>> = {
  'a list of different objects': [
    { type: 'array', uniqueItems: true },
    list(20_000, (n) => ({ n })),
  ],
  'a list of different lists': [{ type: 'array', uniqueItems: true }, list(25_000, (n) => [n])],
  'a list of different numbers': [{ type: 'array', uniqueItems: true }, list(30_000, (n) => n)],
  'a list of empty objects': [{ type: 'array', uniqueItems: true }, list(40_000, () => ({}))],
  'a tree with alternatives (anyOf)': [tree('anyOf'), deepTree],
  'a tree with alternatives (oneOf)': [tree('oneOf'), deepTree],
  'nested groups': [{ type: 'string', pattern: '^(a+)+$' }, `${'a'.repeat(200_000)}!`],
  'equal alternatives': [{ type: 'string', pattern: '^(a|a)*$' }, `${'a'.repeat(60)}!`],
  'many stars': [{ type: 'string', pattern: '^.*.*.*.*.*x$' }, 'a'.repeat(100_000)],
  'a mail address': [
    { type: 'string', pattern: '^([a-zA-Z0-9_.+-]+)+@[a-z]+$' },
    `${'a'.repeat(100_000)}!`,
  ],
  'white space at the end': [{ type: 'string', pattern: '\\s+$' }, `${' '.repeat(200_000)}x`],
  'names with a pattern': [
    { type: 'object', patternProperties: { '^(a+)+$': { type: 'number' } } },
    Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`${'a'.repeat(400)}${n}!`, 1])),
  ],
  'names of properties': [
    { type: 'object', propertyNames: { pattern: '^(a|aa)+$' } },
    { [`${'a'.repeat(10_000)}!`]: 1 },
  ],
  'a format': [{ type: 'string', format: 'uri' }, `http://${'a'.repeat(200_000)}`],
  'a format of mail': [{ type: 'string', format: 'email' }, `${'a'.repeat(100_000)}@`],
  'a format of expressions': [{ type: 'string', format: 'regex' }, '('.repeat(200_000)],
  'a long choice': [{ enum: list(4000, (n) => `choice ${n}`) }, 'x'.repeat(200_000)],
  'a long constant': [{ const: list(10_000, (n) => n) }, list(10_000, (n) => n + 1)],
  'no unevaluated properties': [
    {
      type: 'object',
      anyOf: list(100, (n) => ({ properties: { [`p${n}`]: {} } })),
      unevaluatedProperties: false,
    },
    Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`p${n}`, 1])),
  ],
  'items that must contain': [
    { type: 'array', contains: { enum: list(500, (n) => n) }, minContains: 1000 },
    list(50_000, (n) => -n),
  ],
  'a type named __proto__': [{ type: '__proto__' }, 'x'],
  'a type named constructor': [{ type: 'constructor' }, 'x'],
  'a number with many digits': [{ type: 'number', multipleOf: 1e-300 }, 1e300],
}

/** Schemas that no tool may have, or that accept anything. The other tools of the agent stay. */
const STRANGE: Readonly<Record<string, Json>> = {
  'a reference to itself': { type: 'object', $ref: '#' },
  'references in a circle': {
    type: 'object',
    $ref: '#/$defs/a',
    $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } },
  },
  'a reference to the web': { type: 'object', $ref: 'http://127.0.0.1:9/schema.json' },
  'a reference to a file': { type: 'object', $ref: 'file:///etc/passwd' },
  'a reference to nothing': { type: 'object', $ref: '#/$defs/none' },
  'a hundred levels': nested(100, (a) => ({ type: 'object', properties: { a } })) as Json,
  '10,000 levels': nested(10_000, (a) => ({ type: 'object', properties: { a } })) as Json,
  'references that double': {
    type: 'object',
    allOf: [{ $ref: '#/$defs/a0' }],
    $defs: Object.fromEntries(
      Array.from({ length: 40 }, (_, n) => [
        `a${n}`,
        n === 39 ? {} : { allOf: [{ $ref: `#/$defs/a${n + 1}` }, { $ref: `#/$defs/a${n + 1}` }] },
      ]),
    ),
  },
  '100,000 properties': {
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`p${n}`, {}])),
  },
  'a pattern that is none': { type: 'object', properties: { a: { pattern: '(' } } },
  'code in a name': {
    type: 'object',
    properties: {
      ['"]);globalThis.polluted=1;//']: { type: 'string' },
      '`${globalThis.polluted=1}`': {},
    },
    required: ["');globalThis.polluted=1;//"],
  },
  'code in an id': { type: 'object', $id: '");globalThis.polluted=1;//' },
  'the property __proto__': JSON.parse(
    '{"type":"object","properties":{"__proto__":{"type":"object","properties":{"polluted":{"default":1}}}}}',
  ) as Json,
  'a keyword of the gateway': { type: 'object', 'x-counted-reference': 'yes', properties: {} },
  'a type that does not exist': { type: 'secret' },
  'a schema that is a list': [] as never,
}

const ended = ({ status, message }: Answer): boolean =>
  status === 200 && ('result' in message || at({ message }, 'error', 'code') === -32_602)

function slowProbes(target: Target): readonly Probe[] {
  return Object.entries(SLOW).flatMap(([name, [schema, value]], n) => {
    const parameters = { type: 'object', properties: { a: schema } }
    target.agents.join(
      `slow${n}`,
      function* ({ resume, skillId }): Iterable<AgentUpdate> {
        if (skillId !== 'ask' || resume) return yield { type: 'done', text: 'checked' }
        const questions = [{ id: 'q', message: 'Which?', schema: parameters }]
        return yield { type: 'asked', questions, state: {} }
      },
      {
        skills: [
          { id: 'do', name: 'do', description: 'd', inputSchema: parameters },
          { id: 'ask', name: 'ask', description: 'd' },
        ],
      },
    )
    return [
      probe(
        `arguments for ${name}`,
        () => modern(target, 'tools/call', { name: `slow${n}_do`, arguments: { a: value } }),
        ended,
      ),
      probe(
        `an answer for ${name}`,
        async () => {
          const call = { name: `slow${n}_ask`, arguments: { message: 'x' }, _meta: SHOWS_FORMS }
          const requestState = at(
            await modern(target, 'tools/call', call),
            'result',
            'requestState',
          )
          const content = { a: value, answer: JSON.stringify({ a: value }) }
          const inputResponses = { i0: { action: 'accept', content } }
          return modern(target, 'tools/call', { ...call, requestState, inputResponses })
        },
        ended,
      ),
    ]
  })
}

function strangeProbes(target: Target): readonly Probe[] {
  const skill = { description: 'd', name: 'x' }
  return Object.entries(STRANGE).map(([name, inputSchema], n) => {
    target.agents.join(`odd${n}`, () => [{ type: 'done', text: 'done' }], {
      skills: [
        { ...skill, id: 'odd', name: 'odd', inputSchema },
        { ...skill, id: 'even', name: 'even' },
      ],
    })
    return probe(
      `a schema with ${name}`,
      async () => {
        const args = { a: 1, 'x-counted-reference': 1 }
        const odd = await modern(target, 'tools/call', { name: `odd${n}_odd`, arguments: args })
        const even = await modern(target, 'tools/call', {
          name: `odd${n}_even`,
          arguments: { message: 'x' },
        })
        const polluted: unknown = Reflect.get(globalThis, 'polluted')
        return { odd, even: textOf(even), polluted }
      },
      ({ odd, even, polluted }) => ended(odd) && even === 'done' && polluted === undefined,
    )
  })
}

export const schemas: Kind = {
  name: 'schemas',
  rule: 'no schema of an agent and no argument for it keeps the gateway busy',
  async prepare(stack) {
    const target = await startTarget(stack, { tools: { parameters: 'schema' } })
    const probes = [...slowProbes(target), ...strangeProbes(target)]
    const { registry } = target.gateway
    const last = `odd${Object.keys(STRANGE).length - 1}_even`
    while (!registry.plan().byName(last)) await sleep(20)
    return {
      probes,
      honest: honestClients('a gateway with strange schemas', target),
    }
  },
}
