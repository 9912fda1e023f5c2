import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { initChatModel } from 'langchain'
import { CommandError } from '@x/internal/command-line'
import { ScriptedModel } from './scripted-model.ts'

/**
 * Name of the model that the environment chooses: `PLAYGROUND_MODEL`, such as `openai:gpt-5-mini`,
 * `anthropic:claude-sonnet-4-5` or `scripted`; else one of the provider whose key is set; else `scripted`.
 */
export function modelName(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const { PLAYGROUND_MODEL, ANTHROPIC_API_KEY, OPENAI_API_KEY } = env
  if (PLAYGROUND_MODEL) return PLAYGROUND_MODEL
  if (ANTHROPIC_API_KEY) return 'anthropic:claude-sonnet-4-5'
  return OPENAI_API_KEY ? 'openai:gpt-5-mini' : 'scripted'
}

/**
 * Creates a model by name. The package of its provider, which also reads `OPENAI_BASE_URL`, is loaded only here.
 *
 * @throws CommandError for an unknown name, a missing key, or a package that is not installed
 */
export async function createModel(name: string): Promise<BaseChatModel> {
  if (name === 'scripted') return new ScriptedModel()
  const provider = /^(openai|anthropic):./.exec(name)?.[1]
  if (provider === undefined) {
    throw new CommandError(
      `PLAYGROUND_MODEL is "${name.slice(0, 60)}": set it to scripted, openai:<model> or anthropic:<model>, and start the playground again`,
    )
  }
  const key = `${provider.toUpperCase()}_API_KEY`
  if (!process.env[key]) {
    throw new CommandError(
      `The model ${name} needs a key: set ${key}, or PLAYGROUND_MODEL=scripted`,
    )
  }
  return initChatModel(name, { maxRetries: 1 }).catch((cause: unknown) => {
    const message = `The package @langchain/${provider} cannot be loaded: install it, or set PLAYGROUND_MODEL=scripted`
    throw new CommandError(message, { cause })
  })
}
