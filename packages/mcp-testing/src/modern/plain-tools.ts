import { z } from 'zod'
import type { ModernState } from './modern-state.ts'
import { reportProgress, text } from './modern-state.ts'
import type { RegisterTool } from './register.ts'

const nothing = z.object({})
const safe = { readOnlyHint: true }
const unsafe = { readOnlyHint: false, idempotentHint: false }

/** Tools that answer by themselves. */
export function addPlainTools(register: RegisterTool, state: ModernState): void {
  register({
    name: 'echo',
    description: 'Returns the text it was given.',
    input: z.object({ text: z.string() }),
    annotations: safe,
    run: (args) => text(args.text),
  })
  register({
    name: 'add',
    description: 'Adds two numbers.',
    input: z.object({ a: z.number(), b: z.number() }),
    output: z.object({ sum: z.number() }),
    annotations: safe,
    run: ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  })
  register({
    name: 'fail',
    description: 'Fails, as a tool fails.',
    input: nothing,
    run: () => ({ ...text('This tool always fails'), isError: true }),
  })
  register({
    name: 'slow',
    description: 'Answers when it is released.',
    input: nothing,
    annotations: unsafe,
    run: async (_args, context) => text(await state.hold(context)),
  })
  register({
    name: 'progress',
    description: 'Reports progress three times and logs once before it answers.',
    input: nothing,
    annotations: safe,
    run: async (_args, context) => {
      await reportProgress(context, { progress: 1, total: 3 })
      await reportProgress(context, { progress: 2, total: 3 })
      await context.mcpReq.log('info', 'two of three', 'progress')
      await reportProgress(context, { progress: 3, total: 3 })
      return text('three of three')
    },
  })
  register({
    name: 'number_output',
    description: 'Returns a number, bare; 0 unless told.',
    input: z.object({ value: z.number().default(0) }),
    output: z.number(),
    annotations: safe,
    run: ({ value }) => ({ ...text(String(value)), structuredContent: value }),
  })
  register({
    name: 'array_output',
    description: 'Returns a list of two texts, bare.',
    input: nothing,
    output: z.array(z.string()),
    annotations: safe,
    run: () => ({ ...text('one, two'), structuredContent: ['one', 'two'] }),
  })
  for (let n = 1; n <= state.addedTools; n++) {
    register({
      name: `added_${n}`,
      description: 'Was added while the server ran.',
      input: nothing,
      run: () => text(`added ${n}`),
    })
  }
}
