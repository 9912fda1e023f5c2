import { expect, test } from 'vitest'
import { checkForm, parseFields } from './form-schema.ts'

const SCHEMA = {
  type: 'object',
  required: ['name', 'age'],
  properties: {
    name: {
      type: 'string',
      title: 'Your name',
      description: 'As on the card',
      minLength: 2,
      maxLength: 4,
    },
    email: { type: 'string', format: 'email' },
    site: { type: 'string', format: 'uri' },
    day: { type: 'string', format: 'date' },
    at: { type: 'string', format: 'date-time' },
    age: { type: 'integer', minimum: 18, maximum: 99, default: 20 },
    weight: { type: 'number' },
    news: { type: 'boolean', default: true },
    size: { type: 'string', enum: ['s', 'm'], enumNames: ['Small', 'Medium'], default: 'm' },
    speed: { type: 'string', oneOf: [{ const: 'std', title: 'Standard' }, { const: 'exp' }] },
    days: { type: 'array', items: { type: 'string', enum: ['mon', 'tue'] }, default: ['tue'] },
    extras: {
      type: 'array',
      items: {
        anyOf: [
          { const: 'a', title: 'Card' },
          { const: 'b', title: 'Box' },
        ],
      },
      minItems: 2,
    },
  },
}

type Values = Readonly<Record<string, string | readonly string[]>>

/** What a browser sends of a form with the defaults, after somebody entered these values. */
function check(values: Values): { content: unknown; errors: unknown } {
  const data = new FormData()
  for (const { name, initial } of parseFields(SCHEMA)) {
    for (const text of [values[name] ?? initial].flat()) data.append(name, text)
  }
  const { content, errors } = checkForm(parseFields(SCHEMA), data)
  return { content, errors: Object.fromEntries(errors) }
}

test('makes a field of each kind of property', () => {
  const fields = Object.fromEntries(parseFields(SCHEMA).map((field) => [field.name, field]))
  expect(fields['name']).toEqual({
    name: 'name',
    label: 'Your name',
    hint: 'As on the card',
    isRequired: true,
    type: 'text',
    format: undefined,
    min: 2,
    max: 4,
    choices: [],
    initial: [],
  })
  expect(fields['email']).toMatchObject({ label: 'email', isRequired: false, format: 'email' })
  expect(fields['age']).toMatchObject({ type: 'integer', min: 18, max: 99 })
  expect(fields['weight']).toMatchObject({ type: 'number' })
  expect(fields['news']).toMatchObject({ type: 'boolean' })
  const small = [
    { value: 's', label: 'Small' },
    { value: 'm', label: 'Medium' },
  ]
  expect(fields['size']).toMatchObject({ type: 'choice', choices: small })
  const speeds = [
    { value: 'std', label: 'Standard' },
    { value: 'exp', label: 'exp' },
  ]
  expect(fields['speed']).toMatchObject({ type: 'choice', choices: speeds })
  expect(fields['days']).toMatchObject({
    type: 'choices',
    choices: [{ value: 'mon' }, { value: 'tue' }],
  })
  expect(fields['extras']).toMatchObject({
    type: 'choices',
    choices: [{ label: 'Card' }, { label: 'Box' }],
  })
})

test('starts with the defaults of the schema', () => {
  const initial = parseFields(SCHEMA).map((field) => [field.name, field.initial])
  expect(Object.fromEntries(initial)).toMatchObject({
    name: [],
    age: ['20'],
    news: ['true'],
    size: ['m'],
    days: ['tue'],
  })
  const [off] = parseFields({ properties: { off: { type: 'boolean', default: false } } })
  expect(off?.initial).toEqual([])
})

test('returns content with the types of the schema, without empty fields', () => {
  const at = '2026-01-02T03:04:05'
  const { content, errors } = check({ name: 'Ada', weight: '1.5', email: 'a@b.example', at })
  expect(errors).toEqual({})
  expect(content).toEqual({
    name: 'Ada',
    email: 'a@b.example',
    at: new Date(at).toISOString(),
    age: 20,
    weight: 1.5,
    news: true,
    size: 'm',
    days: ['tue'],
  })
})

test.each<[string, Values[string], string]>([
  ['name', '', 'Fill in this field.'],
  ['name', 'A', 'Enter at least 2 characters.'],
  ['name', 'Alice', 'Enter at most 4 characters; these are 5.'],
  ['email', 'ada', 'Enter an email address, such as ada@example.com.'],
  ['site', 'shop', 'Enter a whole address, such as https://example.com/page.'],
  ['day', '2026-13-01', 'Enter a date that exists.'],
  ['age', '', 'Fill in this field.'],
  ['age', '17', 'Enter 18 or more.'],
  ['age', '100', 'Enter 99 or less.'],
  ['age', '20.5', 'Enter a whole number.'],
  ['weight', 'heavy', 'Enter a number.'],
  ['extras', ['a'], 'Choose at least 2.'],
])('says what is wrong with %s = %j', (name, value, problem) => {
  expect(check({ name: 'Ada', [name]: value }).errors).toEqual({ [name]: problem })
})

test('counts a character outside the first plane as one', () => {
  expect(check({ name: '🍎🍎🍎🍎' }).errors).toEqual({})
})

test.each([undefined, null, 'x', {}, { properties: 7 }])('makes an empty form of %j', (schema) => {
  expect(parseFields(schema)).toEqual([])
})

test('keeps fields with the names of object members', () => {
  const properties = JSON.parse(
    '{"__proto__": {"type": "string"}, "constructor": {"type": "number"}}',
  )
  const fields = parseFields({ properties })
  const data = new FormData()
  data.append('__proto__', 'a')
  data.append('constructor', 'x')
  const { content, errors } = checkForm(fields, data)
  expect(JSON.stringify(content)).toBe('{"__proto__":"a"}')
  expect([...errors]).toEqual([['constructor', 'Enter a number.']])
})
