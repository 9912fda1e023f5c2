import { isRecord } from '@x/internal'
import type { CheckedArguments } from './tool-plan.ts'
import type { ExtraSettings } from '../options.ts'

/** Properties that the gateway adds to what a tool takes. */
export type ExtraName = keyof ExtraSettings

const EXTRA_NAMES: readonly ExtraName[] = ['files', 'resume', 'scope', 'idempotencyKey']

const MAX_FILES = 64
const MAX_URI = 2048
const MAX_HANDLE = 4096
const MAX_KEY = 128

/** How each of them is described. None is required. */
export const EXTRA_SCHEMAS: Readonly<Record<ExtraName, Readonly<Record<string, unknown>>>> = {
  files: {
    type: 'array',
    items: { type: 'string', maxLength: MAX_URI },
    maxItems: MAX_FILES,
    description: 'URIs of artifacts to give to the agent.',
  },
  resume: {
    type: 'object',
    properties: {
      run: { type: 'string', maxLength: MAX_HANDLE, description: 'The run that asked.' },
      answers: { type: 'object', description: 'An answer for each question, by its key.' },
    },
    required: ['run', 'answers'],
    description: 'Only to answer the questions of an earlier call that needs input.',
  },
  scope: {
    type: 'string',
    maxLength: MAX_KEY,
    description: 'Scope of an earlier call, where files are kept. Leave it out to get a new one.',
  },
  idempotencyKey: {
    type: 'string',
    maxLength: MAX_KEY,
    description: 'The same key and arguments again join the earlier call instead of repeating it.',
  },
}

export interface ExtraSituation {
  readonly wanted: ExtraSettings
  /** Whether the agent can ask, and so be answered. */
  readonly canAsk: boolean
  /** What the skill's own schema has already: those win. */
  readonly taken: ReadonlySet<string>
}

/** Which of them a tool takes. */
export function extrasFor({ wanted, canAsk, taken }: ExtraSituation): readonly ExtraName[] {
  return EXTRA_NAMES.filter(
    (name) => wanted[name] === true && !taken.has(name) && (name !== 'resume' || canAsk),
  )
}

type Extras = Omit<CheckedArguments, 'input'>
type Arguments = Readonly<Record<string, unknown>>

/** What they say, or why they cannot be right. */
export function readExtras(
  args: Arguments,
  names: readonly ExtraName[],
): Extras | { readonly complaint: string } {
  const given = Object.fromEntries(names.map((name) => [name, args[name]]))
  const { files = [], resume, scope, idempotencyKey } = given
  if (!isFileList(files)) {
    return { complaint: `/files must be a list of at most ${MAX_FILES} artifact URIs` }
  }
  for (const [name, value] of Object.entries({ scope, idempotencyKey })) {
    if (value !== undefined && !isText(value, MAX_KEY)) {
      return { complaint: `/${name} must be a text of 1 to ${MAX_KEY} characters` }
    }
  }
  const resumed = resume === undefined ? undefined : resumeFrom(resume)
  if (resume !== undefined && resumed === undefined) {
    return { complaint: '/resume must have "run", a text, and "answers", an object' }
  }
  return {
    files,
    ...(resumed !== undefined && { resume: resumed }),
    ...(isText(scope, MAX_KEY) && { scope }),
    ...(isText(idempotencyKey, MAX_KEY) && { idempotencyKey }),
  }
}

function resumeFrom(value: unknown): CheckedArguments['resume'] {
  if (!isRecord(value) || !isText(value['run'], MAX_HANDLE)) return undefined
  const { run, answers } = value
  return isRecord(answers) ? { run, answers } : undefined
}

function isFileList(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) && value.length <= MAX_FILES && value.every((uri) => isText(uri, MAX_URI))
  )
}

function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= maxLength
}
