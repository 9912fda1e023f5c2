import * as z from 'zod'

const EXECUTION_TYPE = z.enum(['playground', 'runtime'])
const PROCESS_NAME = z.enum(['agent', 'gateway'])
const QUESTION_ACTION = z.enum(['accept', 'decline', 'cancel'])

const SERVER_TROUBLE = z.object({
  name: z.enum([
    'forget-sessions',
    'restart-server',
    'cut-connections',
    /** The server changes between its legacy and its 2026-07-28 face. */
    'switch-era',
  ]),
  server: z.string().max(100),
})

/** A person makes trouble for real. */
const TROUBLE = z.discriminatedUnion('name', [
  SERVER_TROUBLE,
  /** SIGKILL, then a new process. */
  z.object({ name: z.literal('kill-process'), process: PROCESS_NAME }),
  z.object({ name: z.literal('set-execution-type'), executionType: EXECUTION_TYPE }),
  /** 50 calls of one tool at once. */
  z.object({ name: z.literal('parallel-calls') }),
  /** A task of about ten seconds at the gateway; then `kill` dies in the middle of it. */
  z.object({ name: z.literal('long-task'), kill: z.enum([...PROCESS_NAME.options, 'none']) }),
])

/** Values of a form, by the names in its schema. */
const FORM_VALUES = z.record(
  z.string(),
  z.union([z.string(), z.number(), z.boolean(), z.array(z.string()).readonly()]),
)

const ANSWER = z.object({
  type: z.literal('answer'),
  questionId: z.string().max(1000),
  action: QUESTION_ACTION,
  content: FORM_VALUES.optional(),
})

/** Body of `POST /api/commands`. The answer is 202, or 4xx or 5xx with `{ "error": "…" }`. */
export const COMMAND = z.discriminatedUnion('type', [
  z.object({ type: z.literal('say'), text: z.string().max(100_000) }),
  ANSWER,
  /** Stops the run that is under way. */
  z.object({ type: z.literal('stop-run') }),
  z.object({ type: z.literal('new-conversation') }),
  z.object({ type: z.literal('trouble'), trouble: TROUBLE }),
])

export type ExecutionType = z.infer<typeof EXECUTION_TYPE>

/** Values of the environment variable. `eval` runs like `runtime`. */
export const EXECUTION_TYPES = ['playground', 'runtime', 'eval'] as const

/**
 * Returns the type that `AGENT_EXECUTION_TYPE` names. @default 'runtime'
 *
 * @throws Error for another value: sessions would silently end with each run
 */
export function executionTypeFrom(value: string | undefined): ExecutionType {
  const known = EXECUTION_TYPES.find((type) => type === (value ?? 'runtime'))
  if (known !== undefined) return known === 'playground' ? 'playground' : 'runtime'
  throw new Error(
    `AGENT_EXECUTION_TYPE is "${value}": it must be one of ${EXECUTION_TYPES.join(', ')}, in lower case`,
  )
}
export type ProcessName = z.infer<typeof PROCESS_NAME>
export type FormValues = z.infer<typeof FORM_VALUES>
export type QuestionAction = z.infer<typeof QUESTION_ACTION>
export type ServerTrouble = z.infer<typeof SERVER_TROUBLE>
export type Trouble = z.infer<typeof TROUBLE>
export type Answer = z.infer<typeof ANSWER>
export type Command = z.infer<typeof COMMAND>
