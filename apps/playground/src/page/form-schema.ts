/** A field of a form, from one property of a flat schema (MCP 2025-11-25, elicitation). */
export interface Field {
  readonly name: string
  readonly label: string
  readonly hint?: string | undefined
  readonly isRequired: boolean
  readonly type: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'choices'
  /** Of a text: `email`, `uri`, `date` or `date-time`. */
  readonly format?: string | undefined
  /** Bounds of a number, of the length of a text, or of the number of choices. */
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly choices: readonly { readonly value: string; readonly label: string }[]
  /** Defaults of the schema. */
  readonly initial: readonly string[]
}

type Content = string | number | boolean | readonly string[]

export interface CheckedForm {
  readonly content: Readonly<Record<string, Content>>
  /** Sentences for the person, by name of the field. */
  readonly errors: ReadonlyMap<string, string>
}

/** Returns the fields of a schema. A property that is none of the known kinds becomes a text field. */
export function parseFields(schema: unknown): Field[] {
  const { properties, required } = asRecord(schema)
  return Object.entries(asRecord(properties)).map(([name, value]) => {
    const property = asRecord(value)
    const isList = property.type === 'array'
    const choices = parseChoices(isList ? asRecord(property.items) : property)
    const { type, minLength, minimum = minLength, minItems = minimum } = property
    const { maxLength, maximum = maxLength, maxItems = maximum } = property
    return {
      name,
      label: getString(property.title) ?? name,
      hint: getString(property.description),
      isRequired: Array.isArray(required) && required.includes(name),
      type: isList
        ? 'choices'
        : choices.length > 0
          ? 'choice'
          : type === 'boolean' || type === 'number' || type === 'integer'
            ? type
            : 'text',
      format: getString(property.format),
      min: typeof minItems === 'number' ? minItems : undefined,
      max: typeof maxItems === 'number' ? maxItems : undefined,
      choices,
      initial: [property.default ?? []]
        .flat()
        .filter((one) => one !== false)
        .map(String),
    }
  })
}

/** Checks what was entered, as the server will do it. An empty field that is not required is left out. */
export function checkForm(fields: readonly Field[], data: FormData): CheckedForm {
  // Names come from the server: "constructor" and "__proto__" are names like others.
  const content = new Map<string, Content>()
  const errors = new Map<string, string>()
  for (const field of fields) {
    const { name, type, format, isRequired } = field
    const texts = data
      .getAll(name)
      .map(String)
      .filter((text) => text !== '')
    const [text = ''] = texts
    if (type === 'boolean') {
      content.set(name, texts.length > 0)
      continue
    }
    const isEmpty = texts.length === 0
    const problem = isEmpty ? isRequired && 'Fill in this field.' : findProblem(field, texts)
    if (problem) errors.set(name, problem)
    else if (isEmpty) continue
    else if (type === 'choices') content.set(name, texts)
    else if (type === 'number' || type === 'integer') content.set(name, Number(text))
    else if (format === 'date-time') content.set(name, new Date(text).toISOString())
    else content.set(name, text)
  }
  return { content: Object.fromEntries(content), errors }
}

function findProblem(field: Field, texts: readonly string[]): string | undefined {
  const { type, format, min = -Infinity, max = Infinity } = field
  const [text = ''] = texts
  if (type === 'choices') {
    if (texts.length < min) return `Choose at least ${min}.`
    return texts.length > max ? `Choose at most ${max}.` : undefined
  }
  if (type === 'number' || type === 'integer') {
    const number = Number(text)
    if (!Number.isFinite(number)) return 'Enter a number.'
    if (type === 'integer' && !Number.isInteger(number)) return 'Enter a whole number.'
    if (number < min) return `Enter ${min} or more.`
    return number > max ? `Enter ${max} or less.` : undefined
  }
  if (type !== 'text') return undefined
  const length = Array.from(text).length
  if (length < min) return `Enter at least ${min} characters.`
  if (length > max) return `Enter at most ${max} characters; these are ${length}.`
  if (format === 'email' && !/^[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)+$/.test(text)) {
    return 'Enter an email address, such as ada@example.com.'
  }
  if (format === 'uri' && !URL.canParse(text)) {
    return 'Enter a whole address, such as https://example.com/page.'
  }
  const isDate = format === 'date' || format === 'date-time'
  return isDate && Number.isNaN(Date.parse(text)) ? 'Enter a date that exists.' : undefined
}

/** `enum` (with the older `enumNames`), or `oneOf`/`anyOf` of constants with titles. */
function parseChoices({
  enum: values,
  enumNames: names,
  oneOf,
  anyOf = oneOf,
}: Schema): Field['choices'] {
  const listed = Array.isArray(values)
    ? values.map((value, index) => ({ const: value, title: Array.isArray(names) && names[index] }))
    : Array.isArray(anyOf)
      ? anyOf
      : []
  return listed.map((one) => {
    const { const: value, title } = asRecord(one)
    return { value: String(value), label: getString(title) ?? String(value) }
  })
}

type Schema = Readonly<Record<string, unknown>>

function asRecord(value: unknown): Schema {
  return typeof value === 'object' && value !== null
    ? Object.fromEntries(Object.entries(value))
    : {}
}

function getString(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
