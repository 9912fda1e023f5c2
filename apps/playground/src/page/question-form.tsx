import { useId, useState } from 'react'
import type { FormEvent, ReactElement } from 'react'
import type { Question, QuestionAction } from '../timeline/events.ts'
import { ExternalLink, safeUrl } from './content.tsx'
import { checkForm, initialValues, parseFields } from './form-schema.ts'
import type { Choice, Field, FieldValue } from './form-schema.ts'
import type { Send } from './host-connection.ts'

export interface QuestionProps {
  readonly question: Question & { readonly action?: QuestionAction | undefined }
  readonly send: Send
}

const DONE = { accept: 'You answered.', decline: 'You declined.', cancel: 'You cancelled.' }

/** A question of a server to the person, with a form made of its schema. */
export function QuestionCard({ question, send }: QuestionProps): ReactElement {
  const { id, server, message, action, mode } = question
  const titleId = useId()
  return (
    <section className="question" aria-labelledby={titleId}>
      <h3 id={titleId}>
        <span className="agent">{server}</span> asks
      </h3>
      <p className="text">{message}</p>
      {action !== undefined ? (
        <p className="quiet">{DONE[action]}</p>
      ) : mode === 'url' ? (
        <UrlQuestion question={question} send={send} />
      ) : (
        <QuestionForm key={id} question={question} send={send} />
      )}
    </section>
  )
}

function UrlQuestion({ question, send }: QuestionProps): ReactElement {
  const { id, url = '' } = question
  const isSafe = safeUrl(url) !== undefined
  return (
    <>
      <p className="text">
        {isSafe
          ? 'Open this address only if you trust it: '
          : 'The page does not open this address: '}
        <ExternalLink url={url}>{url}</ExternalLink>
      </p>
      <div className="actions">
        <button
          type="button"
          className="primary"
          disabled={!isSafe}
          onClick={() => void send({ type: 'answer', questionId: id, action: 'accept' })}
        >
          Done
        </button>
        <Refusals questionId={id} send={send} />
      </div>
    </>
  )
}

function Refusals({ questionId, send }: { questionId: string; send: Send }): ReactElement {
  const answer = (action: QuestionAction): void => {
    void send({ type: 'answer', questionId, action })
  }
  return (
    <>
      <button type="button" onClick={() => answer('decline')}>
        Decline
      </button>
      <button type="button" onClick={() => answer('cancel')}>
        Cancel
      </button>
    </>
  )
}

function QuestionForm({ question, send }: QuestionProps): ReactElement {
  const { id, schema } = question
  const fields = parseFields(schema)
  const [values, setValues] = useState(() => initialValues(schema))
  const [errors, setErrors] = useState<ReadonlyMap<string, string>>(new Map())
  const formId = useId()

  function submit(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault()
    const checked = checkForm(fields, values)
    setErrors(checked.errors)
    const first = fields.find(({ name }) => checked.errors.has(name))
    if (first === undefined) {
      void send({ type: 'answer', questionId: id, action: 'accept', content: checked.content })
    } else {
      event.currentTarget
        .querySelector<HTMLElement>(`[data-field="${CSS.escape(first.name)}"]`)
        ?.focus()
    }
  }

  return (
    <form onSubmit={submit} noValidate>
      {fields.map((field) => (
        <FormField
          key={field.name}
          field={field}
          id={`${formId}-${field.name}`}
          value={values[field.name] ?? ''}
          error={errors.get(field.name)}
          onChange={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
        />
      ))}
      <div className="actions">
        <button type="submit" className="primary">
          Send
        </button>
        <Refusals questionId={id} send={send} />
      </div>
    </form>
  )
}

interface FieldProps {
  readonly field: Field
  readonly id: string
  readonly value: FieldValue
  readonly error: string | undefined
  readonly onChange: (value: FieldValue) => void
}

function FormField({ field, id, value, error, onChange }: FieldProps): ReactElement {
  const { label, hint, isRequired, name } = field
  const described = [hint !== undefined && `${id}-hint`, error !== undefined && `${id}-error`]
  const common = {
    'data-field': name,
    'aria-invalid': error !== undefined,
    'aria-describedby': described.filter(Boolean).join(' ') || undefined,
  }
  const notes = (
    <>
      {hint !== undefined && (
        <span className="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {error !== undefined && (
        <span className="error" id={`${id}-error`}>
          {error}
        </span>
      )}
    </>
  )
  const title = (
    <>
      {label}
      {isRequired && <span className="required"> (required)</span>}
    </>
  )
  if (field.type === 'choices') {
    return (
      <fieldset className="field" {...common} tabIndex={-1}>
        <legend>{title}</legend>
        {field.choices.map((choice) => (
          <CheckBox key={choice.value} choice={choice} value={value} onChange={onChange} />
        ))}
        {notes}
      </fieldset>
    )
  }
  if (field.type === 'boolean') {
    return (
      <div className="field">
        <label className="check">
          <input
            type="checkbox"
            checked={value === true}
            onChange={(event) => onChange(event.target.checked)}
            {...common}
          />
          {title}
        </label>
        {notes}
      </div>
    )
  }
  const input = { ...common, id, value: String(value), required: isRequired }
  return (
    <div className="field">
      <label htmlFor={id}>{title}</label>
      {field.type === 'choice' ? (
        <select {...input} onChange={(event) => onChange(event.target.value)}>
          <option value="">{isRequired ? 'Choose…' : 'None'}</option>
          {field.choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...input}
          {...inputType(field)}
          autoComplete="off"
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      {notes}
    </div>
  )
}

type CheckBoxProps = Pick<FieldProps, 'value' | 'onChange'> & { readonly choice: Choice }

function CheckBox({ choice, value, onChange }: CheckBoxProps): ReactElement {
  const chosen = typeof value === 'object' ? value : []
  return (
    <label className="check">
      <input
        type="checkbox"
        checked={chosen.includes(choice.value)}
        onChange={(event) =>
          onChange(
            event.target.checked
              ? [...chosen, choice.value]
              : chosen.filter((one) => one !== choice.value),
          )
        }
      />
      {choice.label}
    </label>
  )
}

function inputType(field: Field): {
  type: string
  inputMode?: 'numeric' | 'decimal'
  step?: string
} {
  // Not type="number": it hides what was typed when that is no number, and changes it by the mouse wheel.
  if (field.type === 'number') {
    return { type: 'text', inputMode: field.isInteger ? 'numeric' : 'decimal' }
  }
  const format = field.type === 'text' ? field.format : undefined
  if (format === 'date-time') return { type: 'datetime-local', step: '1' }
  return {
    type:
      format === 'email' ? 'email' : format === 'uri' ? 'url' : format === 'date' ? 'date' : 'text',
  }
}
