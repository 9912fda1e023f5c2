import { beforeAll, describe, expect, test } from 'vitest'
import { whenSchemasChecked } from '../agents/schemas.ts'
import { planOptions } from '../../test/settings.ts'
import type { GivenPlan } from '../../test/settings.ts'
import type { Agent, JsonSchema, Skill } from '../agents/agent.ts'
import { parametersOf } from './parameters.ts'
import type { ToolParameters } from './parameters.ts'
import type { ArgumentCheck } from './plan.ts'

beforeAll(whenSchemasChecked)

const agent: Agent = { id: 'a', name: 'A', description: '', skills: [], health: 'healthy' }
const city: JsonSchema = {
  type: 'object',
  properties: { city: { type: 'string', minLength: 2 }, days: { type: 'integer' } },
  required: ['city'],
  additionalProperties: false,
}

function parametersWith(
  inputSchema: unknown,
  options: Pick<GivenPlan, 'parameters' | 'takesFiles'> = {},
  over: Partial<Agent> = { canAsk: false },
): ToolParameters {
  const skill = { id: 's', name: 'S', description: '', inputSchema } as Skill
  const parameters = parametersOf({ ...agent, ...over }, skill, planOptions(options))
  if ('defect' in parameters) throw new Error(parameters.defect)
  return parameters
}

function defectOf(inputSchema: unknown): string | undefined {
  const skill = { id: 's', name: 'S', description: '', inputSchema } as Skill
  const parameters = parametersOf(agent, skill, planOptions({ parameters: 'schema' }))
  return 'defect' in parameters ? parameters.defect : undefined
}

function complaintOf(check: ArgumentCheck): string {
  return check.ok ? '' : check.complaint
}

describe('a message', () => {
  const { check, inputSchema } = parametersWith(undefined)

  test('is the parameter of a tool by default', () => {
    expect(inputSchema).toMatchObject({ type: 'object', required: ['message'] })
    expect(check({ message: 'Hi' })).toEqual({
      ok: true,
      arguments: { files: [], input: { kind: 'message', text: 'Hi' } },
      meant: { message: 'Hi' },
      leftOut: [],
    })
  })

  test.each([
    [{}, '/message must be a text'],
    [undefined, '/message must be a text'],
    [{ message: 7 }, '/message must be a text'],
    [{ message: ' \n' }, '/message must not be blank'],
    [[], '/ must be an object'],
  ])('is needed: %j', (args, complaint) => {
    expect(complaintOf(check(args))).toBe(`Bad arguments: ${complaint}`)
  })
})

describe('the schema of a skill', () => {
  const { check, inputSchema } = parametersWith(city, { parameters: 'schema' })

  test('is used with the setting', () => {
    expect(inputSchema).toEqual(city)
    expect(check({ city: 'Paris' })).toEqual({
      ok: true,
      arguments: { files: [], input: { kind: 'arguments', value: { city: 'Paris' } } },
      meant: { city: 'Paris' },
      leftOut: [],
    })
    expect(parametersWith(undefined, { parameters: 'schema' }).kind).toBe('message')
  })

  test.each([
    [{}, "/ must have required property 'city'"],
    [{ city: 'P' }, '/city must NOT have fewer than 2 characters'],
    [{ city: 'Paris', days: 1.5 }, '/days must be integer'],
    [{ city: 'Paris', day: 1 }, '/ must NOT have additional properties: "day"'],
    [{ city: 'Paris', days: '1' }, '/days must be integer'],
    [{ city: null, days: null }, '/city must be string'],
    [{ days: '', toolCallId: 'c' }, "/ must have required property 'city'"],
    [{ toolCallId: 'c', city: '' }, '/city must NOT have fewer than 2 characters'],
  ])('names the wrong part of %j', (args, complaint) => {
    expect(complaintOf(check(args))).toBe(`Bad arguments: ${complaint}`)
  })

  test('can be of another draft, and errors list the allowed values', () => {
    const draft7 = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      definitions: { unit: { enum: ['C', 'F'] } },
      properties: { unit: { $ref: '#/definitions/unit' } },
    }
    const { check: checkUnit } = parametersWith(draft7, { parameters: 'schema' })
    expect(checkUnit({ unit: 'C' }).ok).toBe(true)
    expect(complaintOf(checkUnit({ unit: 'K' }))).toContain(
      '/unit must be equal to one of the allowed values: ["C","F"]',
    )
  })

  test('loses header hints, but no property of that name', () => {
    const hinted = {
      type: 'object',
      properties: {
        tenant: { type: 'string', 'x-mcp-header': 'Tenant' },
        'x-mcp-header': { type: 'string' },
      },
    }
    expect(parametersWith(hinted, { parameters: 'schema' }).inputSchema['properties']).toEqual({
      tenant: { type: 'string' },
      'x-mcp-header': { type: 'string' },
    })
  })

  test('is not checked if an expression could take too long', () => {
    const slow = { type: 'object', properties: { name: { type: 'string', pattern: '^(a+)+$' } } }
    const { check: checkName } = parametersWith(slow, { parameters: 'schema' })
    expect(checkName({ name: `${'a'.repeat(40)}!` }).ok).toBe(true)
    expect(checkName({ name: 7 }).ok).toBe(false)
  })

  test('accepts no value if the schema cannot be compiled', () => {
    const wrong = { type: 'object', properties: { n: { type: 'integer', minimum: 'one' } } }
    const { check: checkWrong } = parametersWith(wrong, { parameters: 'schema' })
    for (const args of [{}, { n: 1 }, { n: null }, { n: '' }]) {
      expect(complaintOf(checkWrong(args))).toContain('the schema of this tool cannot be used')
    }
  })

  test.each([
    ['a list', [], 'it is not an object'],
    ['no object', { type: 'string' }, 'it is of type "string", not "object"'],
    [
      'an unknown type',
      { properties: { a: { type: 'text' } } },
      '#/properties/a/type is not a type of JSON schema',
    ],
    ['properties', { properties: { a: 3 } }, '#/properties/a is not a schema'],
    ['required', { required: 'a' }, '#/required is not a list of names'],
    [
      'a pattern',
      { properties: { a: { pattern: '(' } } },
      '"pattern" is not a valid regular expression',
    ],
    [
      'another document',
      { $ref: 'https://x.example/s?token=1' },
      '#/$ref leads to another document ("https://x.example/s"), which is not fetched',
    ],
    [
      'a broken reference',
      { $ref: '#/$defs/a' },
      '#/$ref does not lead to one schema ("#/$defs/a")',
    ],
    ['size', { description: 'x'.repeat(70_000) }, 'it has more than 65536 characters'],
  ])('cannot be used with a defect in %s', (_what, schema, defect) => {
    expect(defectOf(schema)).toBe(defect)
  })

  test('is refused with values that JSON does not have, with itself, or with too many parts', () => {
    expect(defectOf({ default: 1n })).toBe('it contains a value that JSON does not have')
    const circle: Record<string, unknown> = {}
    circle['items'] = circle
    expect(defectOf(circle)).toBe('it is nested more than 64 levels deep')
    let twice: object = {}
    for (let depth = 0; depth < 25; depth++) twice = { allOf: [twice, twice] }
    expect(defectOf(twice)).toBe('it has more than 20000 nodes')
  })

  test('is refused if it is nested too deeply', () => {
    let schema: JsonSchema = { type: 'string' }
    for (let depth = 0; depth < 70; depth++) schema = { items: schema }
    expect(defectOf({ properties: { a: schema } })).toBe('it is nested more than 64 levels deep')
  })
})

describe('an agent that makes other types of texts', () => {
  const numbers = {
    type: 'object',
    properties: { n: { type: 'number' }, m: { type: 'number' }, list: { type: 'array' } },
    required: ['m'],
    additionalProperties: false,
  }
  const takes = (_: string, value: unknown): boolean => !Number.isNaN(Number(value))
  const skill: Skill = { id: 's', name: '', description: '', inputSchema: numbers, takes }
  const parameters = parametersOf(agent, skill, planOptions({ parameters: 'schema' }))
  if ('defect' in parameters) throw new Error(parameters.defect)
  const { check } = parameters

  test.each([
    [{ m: '5' }, { m: 5 }],
    [
      { m: 1, n: ' 0.50 ' },
      { m: 1, n: 0.5 },
    ],
    [{ m: '0x10' }, { m: '0x10' }],
    [{ m: '12345678901234567890' }, { m: '12345678901234567890' }],
    [{ m: true }, { m: true }],
    [{ m: 1, n: '' }, { m: 1 }],
    [{ m: 1, n: null, toolCallId: 'c' }, { m: 1 }],
    [
      { m: '5', list: '["x"]' },
      { m: 5, list: ['x'] },
    ],
  ])('gets what it takes, and nothing for no value: %j', (args, meant) => {
    expect(check(args)).toMatchObject({ ok: true, meant, arguments: { input: { value: meant } } })
  })

  test('gets no text that it cannot read', () => {
    expect(complaintOf(check({ m: 'five', n: '' }))).toBe('Bad arguments: /m must be number')
    expect(complaintOf(check({ n: '5' }))).toContain("must have required property 'm'")
  })
})

test('an empty text is no value of a format, and is left to the agent if it is required', () => {
  const day = { type: 'string', format: 'date' }
  const orNull = { anyOf: [day, { type: 'null' }] }
  const schema = {
    type: 'object',
    properties: {
      from: day,
      to: day,
      until: orNull,
      since: orNull,
      link: { format: 'uri-reference' },
    },
    required: ['from', 'since'],
  }
  const { check } = parametersWith(schema, { parameters: 'schema' })
  const given = { from: '', to: '', until: '', since: '', link: '' }
  expect(check(given)).toMatchObject({ ok: true, leftOut: [] })
  expect(check(given)).toHaveProperty('meant', { from: '', since: '', link: '' })
})

describe('the context of a call', () => {
  const contextSchema = {
    type: 'object',
    properties: { userId: { type: 'string' }, limit: { type: 'integer' } },
    additionalProperties: false,
  }
  const skill: Skill = { id: 's', name: '', description: '', contextSchema }
  const parameters = parametersOf({ ...agent, canAsk: false }, skill, planOptions())
  if ('defect' in parameters) throw new Error(parameters.defect)
  const { check } = parameters

  test.each([
    [{ userId: 'u', limit: null }, { userId: 'u' }],
    ['{"userId":"u","limit":""}', { userId: 'u' }],
    [{ userId: 'u' }, { userId: 'u' }],
  ])('is read as it was meant: %j', (given, context) => {
    const meant = { message: 'Hi', context }
    expect(check({ message: 'Hi', context: given })).toMatchObject({
      arguments: { context },
      meant,
    })
  })

  test.each([null, '', '[]', []])('is empty if there is none: %j', (given) => {
    const read = check({ message: 'Hi', context: given })
    expect(read).toMatchObject({ ok: true, arguments: { context: {} } })
    expect(read).toHaveProperty('meant', { message: 'Hi' })
  })

  test.each([
    ['no', '/context must be an object'],
    [{ userId: 7 }, '/context/userId must be string'],
    [{ userId: 'u', toolCallId: 'c' }, '/context must NOT have additional properties'],
  ])('is refused with its place: %j', (given, complaint) => {
    expect(complaintOf(check({ message: 'Hi', context: given }))).toContain(complaint)
  })
})

test.each([
  ['plain fields', city, 'schema'],
  [
    'a choice of plain values',
    { properties: { a: { anyOf: [{ type: 'null' }, { enum: ['x'] }] } } },
    'schema',
  ],
  ['no fields', { type: 'object' }, 'message'],
  ['a list of messages', { properties: { messages: { type: 'array' } } }, 'message'],
  ['a combination', { properties: { a: { type: 'string' } }, oneOf: [{}] }, 'message'],
  ['a defect', { type: 'array' }, 'message'],
])('auto: %s', (_what, schema, kind) => {
  expect(parametersWith(schema, { parameters: 'auto' }).kind).toBe(kind)
})

describe('the parameters that the gateway adds', () => {
  const options = { takesFiles: true }
  const asking = { canAsk: true }

  test('depend on the configuration, and on whether the agent can ask', () => {
    const namesWith = (takesFiles: boolean, over: Partial<Agent> = {}) =>
      Object.keys(
        parametersWith(undefined, { takesFiles }, over).inputSchema['properties'] as object,
      )
    expect(namesWith(false)).toEqual(['message', 'resume'])
    expect(namesWith(true)).toEqual(['message', 'files', 'resume'])
    expect(namesWith(true, { canAsk: false })).toEqual(['message', 'files'])
  })

  test('are not passed to the agent, also if its schema allows no more properties', () => {
    const { check } = parametersWith(city, { ...options, parameters: 'schema' })
    const value = { city: 'Paris' }
    expect(check({ ...value, files: ['artifact://s/a'] })).toEqual({
      ok: true,
      arguments: { files: ['artifact://s/a'], input: { kind: 'arguments', value } },
      meant: { city: 'Paris', files: ['artifact://s/a'] },
      leftOut: [],
    })
  })

  test('are not added if the skill has a property of that name', () => {
    const own = { type: 'object', properties: { files: { type: 'integer' } }, required: ['resume'] }
    const given = { ...options, parameters: 'schema' } as const
    const { check, inputSchema } = parametersWith(own, given, asking)
    expect(inputSchema['properties']).toEqual({ files: { type: 'integer' } })
    expect(check({ files: 3, resume: 'mine' })).toMatchObject({
      arguments: { files: [], input: { value: { files: 3, resume: 'mine' } } },
    })
  })

  test('answer a run without the other arguments', () => {
    const { check } = parametersWith(undefined, options, asking)
    const resume = { run: 'run_1', answers: { i0: 'yes' } }
    const alone = { ok: true, arguments: { files: [], resume }, meant: {} }
    expect(check({ resume })).toEqual({ ...alone, leftOut: [] })
    expect(check({ resume, message: '', files: null })).toEqual({ ...alone, leftOut: [] })
    expect(check({ resume, message: null, toolCallId: 'c' })).toEqual({
      ...alone,
      leftOut: ['toolCallId'],
    })
    expect(check({ resume, message: 'Hi' })).toMatchObject({
      arguments: { resume, input: { text: 'Hi' } },
      meant: { message: 'Hi' },
    })
    const own = parametersWith(city, { ...options, parameters: 'schema' }, asking)
    expect(own.check({ resume, city: null, days: '' })).toEqual({ ...alone, leftOut: [] })
  })

  test.each([
    [{ files: null, resume: null }, []],
    [{ files: '', resume: '' }, []],
    [{ files: '[]', resume: '[]' }, []],
    [{ files: ' [ ] ', resume: [] }, []],
    [{ files: 'null' }, []],
    [{ files: '["artifact://s/a"]' }, ['artifact://s/a']],
    [{ files: ['artifact://s/a'], sessionId: 's' }, ['artifact://s/a']],
  ])('are read as they were meant: %j', (args, files) => {
    const { check } = parametersWith(undefined, options, asking)
    expect(check({ message: 'Hi', ...args })).toMatchObject({
      arguments: { files, resume: undefined, input: { text: 'Hi' } },
      meant: { message: 'Hi', ...(files.length > 0 && { files }) },
      leftOut: 'sessionId' in args ? ['sessionId'] : [],
    })
  })

  test.each([
    [{ run: 'r', answers: [] }, {}],
    [{ run: 'r', answers: '{"i0":"yes"}' }, { i0: 'yes' }],
    ['{"run":"r","answers":{"i0":null}}', { i0: null }],
  ])('take answers in the forms of clients: %j', (resume, answers) => {
    const { check } = parametersWith(undefined, options, asking)
    expect(check({ resume })).toMatchObject({ arguments: { resume: { run: 'r', answers } } })
  })

  test.each([
    [{ files: 'artifact://a' }, '/files must be'],
    [{ files: Array.from({ length: 65 }, () => 'a') }, '/files must be'],
    [{ resume: { run: 'r' } }, '/resume must have'],
    [{ files: 'null, null' }, '/files must be'],
    [{ files: [null] }, '/files must be'],
    [{ files: '['.repeat(100_000) }, '/files must be'],
    [{ resume: '{"run":"r"}' }, '/resume must have'],
    [{ resume: {} }, '/resume must have'],
  ])('are checked: %j', (args, complaint) => {
    const { check } = parametersWith(undefined, options, asking)
    expect(complaintOf(check({ message: 'Hi', ...args }))).toContain(complaint)
  })
})
