import { describe, expect, test } from 'vitest'
import type { ToolLogEntry } from '../log.ts'
import type { JsonSchema } from '../tool-source.ts'
import type { MergedArguments } from '../tools/tool-binding.ts'
import { ArgumentProperties } from './argument-properties.ts'
import type { NamedResource } from './argument-property.ts'

const origin = { server: { slug: 'shop' }, toolName: 'add' }
const text = { type: 'string' }

const SCHEMA: JsonSchema = {
  type: 'object',
  properties: {
    item: { type: 'string', description: 'What to add', minLength: 1 },
    count: { type: 'integer' },
    gift: { type: 'boolean' },
    tags: { type: 'array', items: text },
    address: {
      type: 'object',
      properties: { city: text, zip: text, geo: { type: 'object', properties: { lat: text } } },
      required: ['city', 'zip'],
    },
    lines: {
      type: 'array',
      items: { type: 'object', properties: { sku: text, tenant: text }, required: ['tenant'] },
    },
    maybe: { anyOf: [{ type: 'object', properties: { key: text } }, { type: 'null' }] },
    home: { $ref: '#/$defs/place' },
    work: { $ref: '#/$defs/place' },
    __proto__x: text,
  },
  required: ['item', 'count'],
  $defs: { place: { type: 'object', properties: { street: text }, required: ['street'] } },
}

interface Setup {
  readonly schema?: JsonSchema
  readonly input?: unknown
  readonly resources?: readonly NamedResource[]
}

interface Subject {
  readonly entries: readonly ToolLogEntry[]
  shown(): JsonSchema
  merge(args?: unknown): Promise<MergedArguments>
}

function subject(properties: Readonly<Record<string, unknown>>, setup: Setup = {}): Subject {
  const { schema = SCHEMA, input, resources = [] } = setup
  const entries: ToolLogEntry[] = []
  const log = (entry: ToolLogEntry): void => void entries.push(entry)
  const fixed = new ArgumentProperties(properties, { origin, log, input: () => input, resources })
  return {
    entries,
    shown: () => fixed.fixedSchema(schema),
    merge: (args = {}) => fixed.merge(args, { schema, config: {} }),
  }
}

function always(value: unknown, isSensitive = false): Record<string, unknown> {
  return { variant: 'static', value, isSensitive }
}

function fromInput(argumentPath: string, isSensitive = false): Record<string, unknown> {
  return { variant: 'argument', argumentPath, isSensitive }
}

describe('a static value', () => {
  test("is the only value that the model sees, and replaces the model's value", async () => {
    const one = subject({ '$.item': always('apple'), '$.gift': always(false) })
    expect(one.shown()).toMatchObject({
      properties: {
        item: { type: 'string', description: 'What to add', enum: ['apple'] },
        gift: { type: 'boolean', enum: [false] },
        count: { type: 'integer' },
      },
      required: ['item', 'count'],
    })
    expect((await one.merge({ item: 'pear', count: 2 })).args).toEqual({
      item: 'apple',
      count: 2,
      gift: false,
    })
  })

  test.each([
    ['$.address', { city: 'Bonn', other: 1 }, 'object'],
    ['$.tags', ['a', 'b'], 'array'],
  ])('of an object or a list is sent, and not shown: %s', async (path, value, type) => {
    const one = subject({ [path]: always(value) })
    const name = path.slice(2)
    expect(one.shown()).toMatchObject({
      properties: { [name]: { type, description: 'Pre-configured: leave it empty.' } },
    })
    expect((await one.merge({ [name]: 'x' })).args).toEqual({ [name]: value })
  })

  test('returns the same schema object while nothing changes', () => {
    const one = subject({ '$.item': always('apple') })
    expect(one.shown()).toBe(one.shown())
  })
})

describe("a value of the agent's input", () => {
  test('is read from its path', async () => {
    const input = { user: { id: 'u1' }, items: [{ n: 'x' }, { n: 'y' }] }
    const one = subject(
      { '$.item': fromInput('$.user.id'), '$.tags[0]': fromInput("$['items'][0].n") },
      { input },
    )
    expect((await one.merge({ tags: ['a', 'b'] })).args).toEqual({ item: 'u1', tags: ['x', 'b'] })
  })

  test('leaves the argument out if it is missing, also if the model gives one', async () => {
    const one = subject({ '$.item': fromInput('$.user.id'), '$.lines[0].tenant': fromInput('$.t') })
    expect((await one.merge({ item: 'mine', lines: [{ sku: 'a', tenant: 'b' }] })).args).toEqual({
      lines: [{ sku: 'a' }],
    })
    expect((await one.merge({})).args).toEqual({})
  })

  test('may be null or false', async () => {
    const one = subject(
      { '$.gift': fromInput('$.gift'), '$.maybe': fromInput('$.none') },
      { input: { gift: false, none: null } },
    )
    expect((await one.merge()).args).toEqual({ gift: false, maybe: null })
  })

  test('throws an error with tool and path for a path that cannot be parsed', async () => {
    const one = subject({ '$.item': fromInput('$..user') })
    await expect(one.merge()).rejects.toMatchObject({
      code: 'INVALID_STATIC_ARGUMENT',
      category: 'system',
      message: expect.stringMatching(/"add".*"\$\.item".*"\$\.\.user"/),
    })
  })

  test('is described as pre-configured while it is unknown', () => {
    expect(subject({ '$.item': fromInput('$.user.id') }).shown()).toMatchObject({
      properties: {
        item: { type: 'string', description: expect.stringMatching(/leave it empty/) },
      },
      required: ['count'],
    })
  })
})

describe('a text', () => {
  async function built(rawString: string, setup: Setup = {}): Promise<unknown> {
    const tokens = [
      { type: 'SimpleText', rawString: '<' },
      { type: 'variable', rawString },
      { type: 'expression', raw_string: '>' },
    ]
    const property = { variant: 'TEXTBUILDER', tokens }
    const merged = await subject({ '$.item': property }, setup).merge()
    return (merged.args as Record<string, unknown>)['item']
  }

  test.each([
    ['input', '<{"a":{"b":"x","n":7,"o":[1],"t":true,"z":null}}>'],
    ['input.a.b', '<x>'],
    ['input.a.n', '<7>'],
    ['input.a.o', '<[1]>'],
    ['input.a.t', '<true>'],
    ['input.a.o.0', '<1>'],
    ['input.a.none', '<input.a.none>'],
    ['input.constructor', '<input.constructor>'],
    ['output.summary', '<summary>'],
    ['unknown.x', '<unknown.x>'],
    ['TOOLS.send mail', '<Send Mail>'],
    ['escalations.boss', '<Boss>'],
    ['contexts.none', '<contexts.none>'],
  ])('is built with %s', async (rawString, expected) => {
    const input = { a: { b: 'x', n: 7, o: [1], t: true, z: null } }
    const resources = [
      { type: 'Tool', name: 'Send Mail' },
      { type: 'escalation', name: 'Boss' },
    ]
    await expect(built(rawString, { input, resources })).resolves.toBe(expected)
  })

  test('is known at once without variables', () => {
    const tokens = [
      { type: 'simpleText', rawString: 'a' },
      { type: 'expression', rawString: 'b' },
    ]
    expect(subject({ '$.item': { variant: 'textBuilder', tokens } }).shown()).toMatchObject({
      properties: { item: { enum: ['ab'] } },
    })
  })
})

describe('a sensitive value', () => {
  test('is sent, and neither shown nor required', async () => {
    const one = subject({
      '$.item': always('s3cret', true),
      '$.address.zip': always('53111', true),
    })
    const shown = JSON.stringify(one.shown())
    expect(shown).not.toContain('s3cret')
    expect(one.shown()).toMatchObject({
      properties: {
        item: {
          type: 'string',
          description: expect.stringMatching(/[Pp]re-configured.*leave it empty/),
        },
        address: { required: ['city'] },
      },
      required: ['count'],
    })
    expect(await one.merge({ count: 1 })).toEqual({
      args: { item: 's3cret', count: 1, address: { zip: '53111' } },
      redacted: { item: '<hidden>', count: 1, address: { zip: '<hidden>' } },
      secrets: ['s3cret', '53111'],
    })
  })

  test('is not in errors', async () => {
    const one = subject({ '$.address': always('s3cret', true) })
    await expect(one.merge()).resolves.toMatchObject({ redacted: { address: '<hidden>' } })
    expect(() => subject({ '$.a[': always('s3cret', true) })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('s3cret') }),
    )
  })
})

describe('places', () => {
  test('prefer a parent to places below it, by steps and not by text', async () => {
    const one = subject(
      {
        '$.a.b': always('lost'),
        '$.a': always({ b: 'won' }),
        '$.ab': always('kept'),
      },
      {
        schema: {
          properties: { a: { type: 'object', properties: { b: text } }, ab: text },
        },
      },
    )
    expect((await one.merge()).args).toEqual({ a: { b: 'won' }, ab: 'kept' })
  })

  test('create missing levels', async () => {
    const one = subject({ '$.address.geo.lat': always('50') })
    expect((await one.merge()).args).toEqual({ address: { geo: { lat: '50' } } })
    expect((await one.merge({ address: null })).args).toEqual({ address: { geo: { lat: '50' } } })
    expect((await one.merge({ address: { city: 'Bonn' } })).args).toEqual({
      address: { city: 'Bonn', geo: { lat: '50' } },
    })
  })

  test('set one item, and create those before it', async () => {
    const one = subject({ '$.tags[1]': always('b') })
    expect((await one.merge({ tags: ['a', 'x', 'c'] })).args).toEqual({ tags: ['a', 'b', 'c'] })
    expect((await one.merge()).args).toEqual({ tags: [null, 'b'] })
    expect(one.shown()).toMatchObject({ properties: { tags: { type: 'array', items: text } } })
  })

  test('are skipped in schema and call if the schema does not have them, with one warning', async () => {
    const one = subject({
      '$.nothing': always('x'),
      '$.item.deeper': always('y'),
      '$.count': always(3),
    })
    expect((await one.merge({ item: 'a' })).args).toEqual({ item: 'a', count: 3 })
    expect(one.shown()).toMatchObject({
      properties: { item: SCHEMA['properties'] && { type: 'string' } },
    })
    expect(JSON.stringify(one.shown())).not.toContain('nothing')
    await one.merge()
    expect(one.entries.map(({ code, message }) => [code, message.includes('nothing')])).toEqual([
      ['ARGUMENT_SKIPPED', true],
      ['ARGUMENT_SKIPPED', false],
    ])
  })

  test('inline a reference only at that place', () => {
    const shown = subject({ '$.home.street': always('Elm') }).shown()
    expect(shown).toMatchObject({
      properties: {
        home: { type: 'object', properties: { street: { enum: ['Elm'] } } },
        work: { $ref: '#/$defs/place' },
      },
      $defs: { place: { properties: { street: text } } },
    })
    expect(JSON.stringify(SCHEMA)).not.toContain('Elm')
  })

  test('are found in bounded time in a schema whose references multiply', async () => {
    const $defs: Record<string, unknown> = { d40: { type: 'object' } }
    for (let index = 0; index < 40; index++) {
      const next = { $ref: `#/$defs/d${index + 1}` }
      $defs[`d${index}`] = { allOf: [next, next] }
    }
    const one = subject({ '$.item': always('x') }, { schema: { $ref: '#/$defs/d0', $defs } })
    expect((await one.merge({ other: 1 })).args).toEqual({ other: 1 })
    expect(one.entries.map(({ code }) => code)).toEqual(['ARGUMENT_SKIPPED'])
  })

  test('enter a nullable object', async () => {
    const one = subject({ '$.maybe.key': always('k') })
    expect(one.shown()).toMatchObject({
      properties: {
        maybe: { anyOf: [{ properties: { key: { enum: ['k'] } } }, { type: 'null' }] },
      },
    })
    expect((await one.merge({ maybe: null })).args).toEqual({ maybe: { key: 'k' } })
  })

  test.each<[tuple: JsonSchema]>([
    [{ prefixItems: [text, { properties: { key: text } }], items: false, type: 'array' }],
    [{ items: [text, { properties: { key: text } }], type: 'array' }],
  ])('enter an item of a tuple: %j', async (tuple) => {
    const one = subject(
      { '$.pair[1].key': always('k'), '$.pair[2]': always('x') },
      { schema: { properties: { pair: tuple } } },
    )
    expect((await one.merge({ pair: ['a', {}] })).args).toEqual({ pair: ['a', { key: 'k' }] })
  })

  test('treat a field called __proto__ as any other', async () => {
    const schema: JsonSchema = JSON.parse('{"properties":{"__proto__":{"type":"string"}}}')
    const one = subject({ "$['__proto__']": always('x') }, { schema })
    expect(JSON.stringify((await one.merge()).args)).toBe('{"__proto__":"x"}')
    expect(JSON.stringify(one.shown())).toContain('"__proto__":{"type":"string","enum":["x"]}')
  })

  test.each<[what: string, properties: Record<string, unknown>]>([
    ['a path', { item: always('x') }],
    ['the root', { $: always({}) }],
    ['a filter', { '$[?(@.a)]': always('x') }],
    ['a place in every item', { '$.lines[*].tenant': always('x') }],
    ['a path into every item', { '$.item': fromInput('$.lines[*]') }],
    ['a list of other properties', { '$.tags': { variant: 'ArrayBuilder' } }],
    ['a variant', { '$.item': { variant: 'magic' } }],
    ['no property', { '$.item': 'x' }],
  ])('throws an error for the developer for %s', (_, properties) => {
    expect(() => subject(properties)).toThrow(
      expect.objectContaining({ code: 'INVALID_STATIC_ARGUMENT', category: 'user' }),
    )
  })
})
