import { useId, useState } from 'react'
import type { FormEvent, InputHTMLAttributes, ReactElement } from 'react'
import type { Question, QuestionAction } from '../timeline/events.ts'
import { ExternalLink, safeUrl } from './content.tsx'
import { checkForm, parseFields } from './form-schema.ts'
import type { Field } from './form-schema.ts'
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
    <section className="question box stack" aria-labelledby={titleId}>
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
  const [errors, setErrors] = useState<ReadonlyMap<string, string>>(new Map())

  function submit(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault()
    const form = event.currentTarget
    const checked = checkForm(fields, new FormData(form))
    setErrors(checked.errors)
    const [first] = checked.errors.keys()
    if (first === undefined) {
      void send({ type: 'answer', questionId: id, action: 'accept', content: checked.content })
    } else {
      form.querySelector<HTMLElement>(`[name="${CSS.escape(first)}"]`)?.focus()
    }
  }

  return (
    <form className="stack" onSubmit={submit} noValidate>
      {fields.map((field) => (
        <FormField key={field.name} field={field} error={errors.get(field.name)} />
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

function FormField({ field, error }: { field: Field; error: string | undefined }): ReactElement {
  const { name, type, label, hint, isRequired, choices, initial } = field
  const id = useId()
  const title = `${label}${isRequired ? ' (required)' : ''}`
  const common = { name, 'aria-invalid': error !== undefined, 'aria-describedby': `${id}-notes` }
  const input = { ...common, id, required: isRequired, defaultValue: initial[0] ?? '' }
  const boxes = type === 'boolean' ? [{ value: 'true', label: title }] : choices
  return (
    <div
      className="field stack"
      {...(type === 'choices' && { role: 'group', 'aria-labelledby': `${id}-title` })}
    >
      {type !== 'boolean' && (
        <label id={`${id}-title`} htmlFor={type === 'choices' ? undefined : id}>
          {title}
        </label>
      )}
      {type === 'choice' ? (
        <select {...input}>
          <option value="">{isRequired ? 'Choose…' : 'None'}</option>
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      ) : type === 'boolean' || type === 'choices' ? (
        boxes.map((box) => (
          <label className="check" key={box.value}>
            <input
              type="checkbox"
              value={box.value}
              defaultChecked={initial.includes(box.value)}
              {...common}
            />
            {box.label}
          </label>
        ))
      ) : (
        <input {...input} {...inputType(field)} autoComplete="off" />
      )}
      <div id={`${id}-notes`}>
        {hint !== undefined && <span className="hint">{hint} </span>}
        {error !== undefined && <span className="error">{error}</span>}
      </div>
    </div>
  )
}

const INPUT_TYPES: Readonly<Record<string, string>> = {
  email: 'email',
  uri: 'url',
  date: 'date',
  'date-time': 'datetime-local',
}

function inputType({ type, format = '' }: Field): InputHTMLAttributes<HTMLInputElement> {
  // Not type="number": its value is empty while the text is not a number.
  if (type !== 'text') return { type: 'text', inputMode: 'decimal' }
  return { type: INPUT_TYPES[format] ?? 'text', step: '1' }
}
