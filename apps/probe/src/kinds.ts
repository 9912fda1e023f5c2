// All kinds of probes, in the order in which they run.
import { bodies } from './kinds/bodies.ts'
import { calls } from './kinds/calls.ts'
import { consent } from './kinds/consent.ts'
import { errorTexts } from './kinds/error-texts.ts'
import { fetches } from './kinds/fetches.ts'
import { files } from './kinds/files.ts'
import { globs } from './kinds/globs.ts'
import { hiddenCharacters } from './kinds/hidden-characters.ts'
import { isolation } from './kinds/isolation.ts'
import { origins } from './kinds/origins.ts'
import { registrations } from './kinds/registrations.ts'
import { restarts } from './kinds/restarts.ts'
import { schemas } from './kinds/schemas.ts'
import { sessions } from './kinds/sessions.ts'
import { signIn } from './kinds/sign-in.ts'
import { stdio } from './kinds/stdio.ts'
import { tokens } from './kinds/tokens.ts'
import type { Kind } from './probe.ts'

export const KINDS: readonly Kind[] = [
  bodies,
  origins,
  tokens,
  registrations,
  signIn,
  consent,
  isolation,
  files,
  sessions,
  calls,
  restarts,
  errorTexts,
  hiddenCharacters,
  globs,
  schemas,
  fetches,
  stdio,
]
