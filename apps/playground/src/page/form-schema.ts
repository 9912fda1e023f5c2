/** A field of a form, from one property of a flat schema (MCP 2025-11-25, elicitation). */
export type Field = {
  readonly name: string
  readonly label: string
  readonly hint?: string | undefined
  readonly isRequired: boolean
} & (
  | {
      readonly type: 'text'
      readonly format?: string | undefined
      readonly minLength?: number | undefined
      readonly maxLength?: number | undefined
    }
  | {
      readonly type: 'number'
      readonly isInteger: boolean
      readonly minimum?: number | undefined
      readonly maximum?: number | undefined
    }
  | { readonly type: 'boolean' }
  | { readonly type: 'choice'; readonly choices: readonly Choice[] }
  | {
      readonly type: 'choices'
      readonly choices: readonly Choice[]
      readonly minItems?: number | undefined
      readonly maxItems?: number | undefined
    }
)

export interface Choice {
  readonly value: string
  readonly label: string
}

/** What a person entered: text of inputs, also of numbers; the values of chosen boxes. */
export type FieldValue = string | boolean | readonly string[]
export type FormValues = Readonly<Record<string, FieldValue>>

export interface CheckedForm {
  readonly content: Readonly<Record<string, string | number | boolean | readonly string[]>>
  /** Sentences for the person, by name of the field. */
  readonly errors: ReadonlyMap<string, string>
}

/** The fields of a schema. A property that is none of the five kinds becomes a text field. */
export function parseFields(schema: unknown): Field[] {
  const { properties, required } = asRecord(schema)
  return Object.entries(asRecord(properties)).map(([name, value]) => {
    const property = asRecord(value)
    const common = {
      name,
      label: getString(property.title) ?? name,
      hint: getString(property.description),
      isRequired: Array.isArray(required) && required.includes(name),
    }
    if (property.type === 'array') {
      const { minItems, maxItems } = property
      const limits = { minItems: getNumber(minItems), maxItems: getNumber(maxItems) }
      return {
        ...common,
        type: 'choices',
        choices: parseChoices(asRecord(property.items)),
        ...limits,
      }
    }
    const choices = parseChoices(property)
    if (choices.length > 0) return { ...common, type: 'choice', choices }
    if (property.type === 'boolean') return { ...common, type: 'boolean' }
    if (property.type === 'number' || property.type === 'integer') {
      const limits = { minimum: getNumber(property.minimum), maximum: getNumber(property.maximum) }
      return { ...common, type: 'number', isInteger: property.type === 'integer', ...limits }
    }
    return {
      ...common,
      type: 'text',
      format: getString(property.format),
      minLength: getNumber(property.minLength),
      maxLength: getNumber(property.maxLength),
    }
  })
}

/** What the form shows first: the defaults of the schema. */
export function initialValues(schema: unknown): FormValues {
  const properties = asRecord(asRecord(schema).properties)
  return Object.fromEntries(
    parseFields(schema).map((field) => {
      const value = asRecord(properties[field.name]).default
      if (field.type === 'boolean') return [field.name, value === true]
      if (field.type === 'choices') {
        return [
          field.name,
          Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [],
        ]
      }
      return [field.name, typeof value === 'number' ? String(value) : (getString(value) ?? '')]
    }),
  )
}

/** Checks what was entered, as the server will do it. An empty field that is not required is left out. */
export function checkForm(fields: readonly Field[], values: FormValues): CheckedForm {
  // Names come from the server: "constructor" and "__proto__" are names like others.
  const content = new Map<string, string | number | boolean | readonly string[]>()
  const errors = new Map<string, string>()
  for (const field of fields) {
    const value = values[field.name] ?? ''
    const isEmpty = value === '' || (Array.isArray(value) && value.length === 0)
    if (isEmpty) {
      if (field.isRequired) errors.set(field.name, 'Fill in this field.')
      continue
    }
    const problem = findProblem(field, value)
    if (problem !== undefined) errors.set(field.name, problem)
    else if (field.type === 'number') content.set(field.name, Number(value))
    else if (field.type === 'text' && field.format === 'date-time') {
      content.set(field.name, new Date(String(value)).toISOString())
    } else content.set(field.name, value)
  }
  return { content: Object.fromEntries(content), errors }
}

function findProblem(field: Field, value: FieldValue): string | undefined {
  switch (field.type) {
    case 'text':
      return findTextProblem(field, String(value))
    case 'number': {
      const { minimum = -Infinity, maximum = Infinity, isInteger } = field
      const number = Number(value)
      if (!Number.isFinite(number)) return 'Enter a number.'
      if (isInteger && !Number.isInteger(number)) return 'Enter a whole number.'
      if (number < minimum) return `Enter ${minimum} or more.`
      return number > maximum ? `Enter ${maximum} or less.` : undefined
    }
    case 'choices': {
      const { minItems = 0, maxItems = Infinity } = field
      if (value === true || value === false) return undefined
      if (value.length < minItems) return `Choose at least ${minItems}.`
      return value.length > maxItems ? `Choose at most ${maxItems}.` : undefined
    }
    case 'boolean':
    case 'choice':
      return undefined
  }
}

function findTextProblem(
  field: Field & { readonly type: 'text' },
  text: string,
): string | undefined {
  const { minLength = 0, maxLength = Infinity, format } = field
  const length = Array.from(text).length
  if (length < minLength) return `Enter at least ${minLength} characters.`
  if (length > maxLength) return `Enter at most ${maxLength} characters; these are ${length}.`
  if (format === 'email' && !/^[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)+$/.test(text)) {
    return 'Enter an email address, such as ada@example.com.'
  }
  if (format === 'uri' && !URL.canParse(text)) {
    return 'Enter a whole address, such as https://example.com/page.'
  }
  if ((format === 'date' || format === 'date-time') && Number.isNaN(Date.parse(text))) {
    return 'Enter a date that exists.'
  }
  return undefined
}

/** `enum` (with the older `enumNames`), or `oneOf`/`anyOf` of constants with titles. */
function parseChoices(property: Readonly<Record<string, unknown>>): Choice[] {
  const { enum: values, enumNames: names, oneOf, anyOf } = property
  if (Array.isArray(values)) {
    return values.map((value, index) => ({
      value: String(value),
      label: (Array.isArray(names) ? getString(names[index]) : undefined) ?? String(value),
    }))
  }
  const titled = Array.isArray(oneOf) ? oneOf : Array.isArray(anyOf) ? anyOf : []
  return titled.map((one) => {
    const { const: value, title } = asRecord(one)
    return { value: String(value), label: getString(title) ?? String(value) }
  })
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
    ? Object.fromEntries(Object.entries(value))
    : {}
}

function getString(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function getNumber(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}
