import type {
  LegacyTitledEnumSchema,
  MultiSelectEnumSchema,
  NumberSchema,
  PrimitiveSchemaDefinition,
  SingleSelectEnumSchema,
  StringSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { FormEvent, InputHTMLAttributes, ReactElement } from 'react'
import type { FormValues } from '../timeline/commands.ts'
import type { Question } from '../timeline/events.ts'
import { ExternalLink, safeUrl } from './content.tsx'
import type { Send } from './host-connection.ts'

export interface QuestionProps {
  readonly question: Question
  readonly send: Send
}

/** A question of a server to the person: a form made of its schema, or an address to visit. */
export function QuestionCard({ question, send }: QuestionProps): ReactElement {
  const { server, message, action } = question
  return (
    <section className="question box stack" aria-label={`Question of ${server}`}>
      <p className="agent">{server} asks</p>
      <p className="text">{message}</p>
      {action === undefined ? (
        <Answer question={question} send={send} />
      ) : (
        <p className="quiet">{`You ${DONE[action]}.`}</p>
      )}
    </section>
  )
}

const DONE = { accept: 'answered', decline: 'declined', cancel: 'cancelled' }

/** The browser checks the fields before it sends the form; the agent checks the values against the schema. */
function Answer({ question, send }: QuestionProps): ReactElement {
  const { id: questionId, mode, schema, url = '' } = question
  const fields = Object.entries(schema?.properties ?? {})
  const canAccept = mode === 'url' ? safeUrl(url) !== undefined : schema !== undefined

  function accept(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault()
    const data = new FormData(event.currentTarget)
    const values = fields.map(([name, property]) => [
      name,
      valueOf(property, data.getAll(name).map(String)),
    ])
    const content = mode === 'url' ? undefined : Object.fromEntries(values)
    void send({ type: 'answer', questionId, action: 'accept', content })
  }

  return (
    <form className="stack" onSubmit={accept}>
      {fields.map(([name, property]) => (
        <Field
          key={name}
          name={name}
          property={property}
          isRequired={schema?.required?.includes(name) ?? false}
        />
      ))}
      {mode === 'url' && (
        <p className="text">
          {canAccept
            ? 'Open this address only if you trust it: '
            : 'The page does not open this address: '}
          <ExternalLink url={url} text={url} />
        </p>
      )}
      {mode === 'form' && !canAccept && (
        <p className="error">The server sent a form that MCP does not allow. Decline it.</p>
      )}
      <div className="bar">
        <button type="submit" className="primary" disabled={!canAccept}>
          {mode === 'url' ? 'Done' : 'Send'}
        </button>
        {(['decline', 'cancel'] as const).map((action) => (
          <button
            type="button"
            key={action}
            onClick={() => void send({ type: 'answer', questionId, action })}
          >
            {action === 'decline' ? 'Decline' : 'Cancel'}
          </button>
        ))}
      </div>
    </form>
  )
}

interface FieldProps {
  readonly name: string
  readonly property: PrimitiveSchemaDefinition
  readonly isRequired: boolean
}

function Field({ name, property, isRequired }: FieldProps): ReactElement {
  const { title = name, description } = property
  const caption = (
    <span>
      <b>{title}</b> {isRequired && '(required)'} <small>{description}</small>
    </span>
  )
  if (property.type === 'boolean') {
    return (
      <label className="bar">
        <input type="checkbox" name={name} defaultChecked={property.default} /> {caption}
      </label>
    )
  }
  if (property.type === 'array') {
    const check = (group: HTMLFieldSetElement): void => checkCount(group, property, isRequired)
    return (
      <fieldset
        className="stack"
        ref={(group) => void (group && check(group))}
        onChange={({ currentTarget }) => check(currentTarget)}
      >
        <legend>{caption}</legend>
        {choicesOf(property.items).map(([value, label]) => (
          <label className="bar" key={value}>
            <input
              type="checkbox"
              name={name}
              value={value}
              defaultChecked={property.default?.includes(value)}
            />
            {label}
          </label>
        ))}
      </fieldset>
    )
  }
  return (
    <label className="stack">
      {caption}
      {'enum' in property || 'oneOf' in property ? (
        <select name={name} required={isRequired} defaultValue={property.default}>
          <option value="">{isRequired ? 'Choose…' : 'None'}</option>
          {choicesOf(property).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      ) : (
        <input name={name} required={isRequired} {...inputOf(property)} autoComplete="off" />
      )}
    </label>
  )
}

type Choices = SingleSelectEnumSchema | MultiSelectEnumSchema['items']

/** Values and labels of an `enum` (with the older `enumNames`), or of a `oneOf` or `anyOf` of titled constants. */
function choicesOf(source: Choices): (readonly [string, string])[] {
  if ('enum' in source) {
    const { enum: values, enumNames: names }: LegacyTitledEnumSchema = source
    return values.map((value, index) => [value, names?.[index] ?? value])
  }
  const titled = 'oneOf' in source ? source.oneOf : source.anyOf
  return titled.map(({ const: value, title }) => [value, title])
}

/** Checks how many boxes are checked: no attribute does. If the field is not required, none is right too. */
function checkCount(
  group: HTMLFieldSetElement,
  { minItems = 0, maxItems = Infinity }: MultiSelectEnumSchema,
  isRequired: boolean,
): void {
  const count = group.querySelectorAll(':checked').length
  const isTooFew = count < minItems && (isRequired || count > 0)
  const problem = isTooFew ? `Choose at least ${minItems}.` : `Choose at most ${maxItems}.`
  group.querySelector('input')?.setCustomValidity(isTooFew || count > maxItems ? problem : '')
}

const INPUT_TYPES = {
  email: 'email',
  uri: 'url',
  date: 'date',
  'date-time': 'datetime-local',
} as const

function inputOf(property: StringSchema | NumberSchema): InputHTMLAttributes<HTMLInputElement> {
  if (property.type !== 'string') {
    const { type, minimum: min, maximum: max, default: defaultValue } = property
    return { type: 'number', step: type === 'integer' ? 1 : 'any', min, max, defaultValue }
  }
  const { format, minLength, maxLength, default: text } = property
  const isTime = format === 'date-time'
  return {
    type: format && INPUT_TYPES[format],
    minLength,
    maxLength,
    // Browsers take "ada@localhost" too; the format of JSON Schema does not.
    ...(format === 'email' && { pattern: '.+@.+[.].+', title: 'Such as ada@example.com' }),
    step: isTime ? 1 : undefined, // second
    // In Swedish, local times are written as ISO 8601 does.
    defaultValue: isTime && text ? new Date(text).toLocaleString('sv') : text,
  }
}

/** The value as the schema asks for it. Undefined for a field that is left out: JSON leaves it out too. */
function valueOf(
  property: PrimitiveSchemaDefinition,
  texts: readonly string[],
): FormValues[string] | undefined {
  const [text = ''] = texts
  if (property.type === 'boolean') return text !== ''
  if (property.type === 'array') return texts.length < (property.minItems ?? 0) ? undefined : texts
  if (text === '') return undefined
  if (property.type !== 'string') return Number(text)
  const isTime = 'format' in property && property.format === 'date-time'
  return isTime ? new Date(text).toISOString() : text
}
