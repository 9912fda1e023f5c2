import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { START, StateGraph, StateSchema } from '@langchain/langgraph'
import { expect, test } from 'vitest'
import * as z from 'zod'
import * as z3 from 'zod/v3'
import type { RunnableGraph } from '../src/agents/langgraph/definition.ts'
import { createGateway } from '../src/gateway.ts'

const SHOWN = { answer: z.string().optional() }
const Shown = z.object(SHOWN)

/** A graph that says what one field of its state is. */
function showing(field: z.ZodType, more: Readonly<Record<string, z.ZodType>> = {}): RunnableGraph {
  const state = z.object({ ...more, it: field, ...SHOWN })
  return new StateGraph({ state, input: state.omit({ answer: true }), output: Shown })
    .addNode('show', ({ it }) => ({ answer: shown(it) }))
    .addEdge(START, 'show')
    .compile()
}

function shown(value: unknown): string {
  if (value instanceof Date) return `date ${value.getUTCFullYear()}`
  if (value instanceof Map) return `map ${JSON.stringify([...value])}`
  if (value instanceof Set) return `set ${JSON.stringify([...value])}`
  return `${typeof value} ${typeof value === 'bigint' ? value : JSON.stringify(value)}`
}

async function served(graph: RunnableGraph) {
  const warnings: string[] = []
  const gateway = createGateway({
    agents: { show: { graph, description: 'Shows' } },
    log: { warn: (message) => warnings.push(message), error: () => undefined },
  })
  const { url } = await gateway.listen({ port: 0 })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  const { tools } = await client.listTools()
  return {
    warnings,
    schema: tools[0]?.inputSchema,
    /** Returns the answer, or the text of an error. */
    call: async (args: Record<string, unknown>): Promise<unknown> => {
      const { content, structuredContent } = await client.callTool({
        name: 'show',
        arguments: args,
      })
      const { answer } = (structuredContent ?? {}) as { readonly answer?: unknown }
      return answer ?? (content as readonly { readonly text?: string }[])[0]?.text
    },
    [Symbol.asyncDispose]: async () => {
      await client.close()
      await gateway.close()
    },
  }
}

test.each<
  readonly [kind: string, field: z.ZodType, schema: object, value: unknown, answer: string]
>([
  ['z.date()', z.date(), { type: 'string', format: 'date-time' }, '2026-05-01', 'date 2026'],
  ['z.date().optional()', z.date().optional(), { type: 'string' }, '2026-05-01', 'date 2026'],
  ['z.coerce.date()', z.coerce.date(), {}, '2026-05-01', 'date 2026'],
  ['z.bigint()', z.bigint(), { type: 'integer' }, 5, 'bigint 5'],
  [
    'z.bigint() of a text',
    z.bigint(),
    { type: 'integer' },
    '90071992547409930',
    'bigint 90071992547409930',
  ],
  ['z.map()', z.map(z.string(), z.number()), { type: 'object' }, { a: 1 }, 'map [["a",1]]'],
  ['z.set()', z.set(z.string()), { type: 'array', items: {} }, ['a'], 'set ["a"]'],
  ['z.coerce.number()', z.coerce.number(), { type: 'number' }, '5', 'number 5'],
  [
    'z.coerce.number() with a limit',
    z.coerce.number().min(9),
    { type: 'number' },
    '10',
    'number 10',
  ],
  ['z.coerce.boolean()', z.coerce.boolean(), { type: 'boolean' }, 'yes', 'boolean true'],
  ['z.coerce.string()', z.coerce.string(), { type: 'string' }, 5, 'string "5"'],
  ['z.preprocess()', z.preprocess((v) => Number(v), z.number()), {}, '5', 'number 5'],
  [
    'z.preprocess() that throws',
    z.preprocess((value) => (value as string).trim(), z.string()),
    {},
    ' a ',
    'string "a"',
  ],
  ['z.custom()', z.custom<string>((v) => v === 'a'), {}, 'a', 'string "a"'],
  [
    'a date in an object',
    z.object({ at: z.coerce.date() }),
    {},
    { at: '2026-05-01' },
    'object {"at":"2026-05-01T00:00:00.000Z"}',
  ],
  ['numbers in a list', z.array(z.coerce.number()), { type: 'array' }, ['5'], 'object [5]'],
  ['z.array(z.any())', z.array(z.any()), { type: 'array', items: {} }, [1], 'object [1]'],
])(
  'offers a graph with %s, and all its other fields',
  async (...[, field, schema, value, answer]) => {
    await using world = await served(showing(field, { city: z.string() }))
    expect(world.warnings).toEqual([])
    expect(world.schema).toMatchObject({ properties: { it: schema, city: { type: 'string' } } })
    expect(await world.call({ it: value, city: 'Oslo' })).toBe(answer)
  },
)

test('refuses a value that neither the schema nor the field accepts', async () => {
  await using world = await served(showing(z.coerce.number()))
  expect(await world.call({ it: 'many' })).toMatch(/^Bad arguments: \/it must be number/)
  await using dates = await served(showing(z.date()))
  expect(await dates.call({ it: 'some day' })).toMatch(/\/?it/)
})

test('describes a field without a type, if its author described it', async () => {
  const field = z.custom<string>((v) => v === 'a').describe('The letter')
  await using world = await served(showing(field))
  expect(world.schema).toMatchObject({ properties: { it: { description: 'The letter' } } })
})

test('offers all fields of a StateSchema', async () => {
  const Own = new StateSchema({ city: z.string(), it: z.date(), answer: z.string().optional() })
  const graph = new StateGraph(Own)
    .addNode('show', ({ it }) => ({ answer: shown(it) }))
    .addEdge(START, 'show')
    .compile()
  await using world = await served(graph)
  expect(world.schema).toMatchObject({
    properties: { city: { type: 'string' }, it: { type: 'string', format: 'date-time' } },
  })
  expect(await world.call({ city: 'Oslo', it: '2026-05-01' })).toBe('date 2026')
})

test('offers all fields of a schema of zod 3', async () => {
  const it = z3.z.date() as unknown as z.ZodType
  const list = z3.z.array(z3.z.any()) as unknown as z.ZodType
  const state = z3.z.object({
    it,
    list,
    answer: z3.z.string().optional(),
  } as never) as unknown as typeof Shown
  const graph = new StateGraph(state)
    .addNode('show', (values) => ({ answer: shown((values as { it?: unknown }).it) }))
    .addEdge(START, 'show')
    .compile()
  await using world = await served(graph)
  expect(world.schema).toMatchObject({
    properties: { it: { type: 'string', format: 'date-time' }, list: { type: 'array', items: {} } },
  })
  expect(await world.call({ it: '2026-05-01', list: [] })).toBe('date 2026')
})

test('offers a message if no schema can be read', async () => {
  const schema = {
    get shape(): never {
      throw new Error('no schema here')
    },
  }
  const builder = { _inputDefinition: { it: {} }, _inputRuntimeDefinition: schema }
  await using world = await served(
    Object.create(showing(z.string()), { builder: { value: builder } }),
  )
  expect(world.schema).toMatchObject({ properties: { message: { type: 'string' } } })
  expect(world.warnings[0]).toContain('so its tool takes a message')
})

test.each<readonly [kind: string, field: z.ZodType, value: unknown, answer: string]>([
  ['a number of any text', z.coerce.number().optional(), '', 'undefined undefined'],
  ['a number of any text', z.coerce.number().optional(), null, 'undefined undefined'],
  ['a number of any text', z.coerce.number().optional(), '[]', 'undefined undefined'],
  ['a number of any text', z.coerce.number().optional(), '5', 'number 5'],
  ['a boolean of any text', z.coerce.boolean().optional(), '', 'undefined undefined'],
  ['a boolean of any text', z.coerce.boolean(), 'false', 'boolean false'],
  ['a boolean of any text', z.coerce.boolean(), 'True', 'boolean true'],
  ['a date', z.date().optional(), '', 'undefined undefined'],
  ['a URL', z.url().optional(), '', 'undefined undefined'],
  ['a mail address', z.email().optional(), '', 'undefined undefined'],
  ['a day', z.iso.date().optional(), '', 'undefined undefined'],
  ['a choice', z.enum(['a', 'b']).optional(), '', 'undefined undefined'],
  ['a number with a default', z.number().default(3), null, 'number 3'],
  ['a list', z.array(z.string()).optional(), '["a"]', 'object ["a"]'],
  ['a list', z.array(z.string()).optional(), '[]', 'undefined undefined'],
  [
    'a list of objects',
    z.array(z.object({ n: z.number().optional() })),
    [{ n: null }],
    'object [{}]',
  ],
  ['an object', z.object({ n: z.number() }).optional(), '{"n":1}', 'object {"n":1}'],
  ['a text', z.string().optional(), '', 'string ""'],
  ['a text or null', z.string().nullish(), null, 'object null'],
  ['a union', z.union([z.number(), z.array(z.string())]).optional(), '["a"]', 'object ["a"]'],
  ['a field without a schema', z.custom<string>((v) => v === '').optional(), '', 'string ""'],
])('reads what clients write for %s (%#)', async (...[, field, value, answer]) => {
  await using world = await served(showing(field, { city: z.string() }))
  const added = { toolCallId: 'call_1', sessionId: 's' }
  expect(await world.call({ it: value, city: 'Oslo', ...added })).toBe(answer)
})
