// An answer that is no success: what happened and what to do about it.
import type { Problem } from './types';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly action: string,
    readonly reason?: string | null,
  ) {
    super(message);
  }
}

export function unreachable(): ApiError {
  const action = 'Check on the machine of the array that `ashlar serve` runs. The page tries again by itself.';
  return new ApiError(0, 'unreachable', 'The array does not answer.', action);
}

export async function errorOf(answer: Response): Promise<ApiError> {
  const text = await answer.text().catch(() => '');
  try {
    const problem = JSON.parse(text) as Partial<Problem>;
    if (typeof problem.detail === 'string') {
      // A person reads it, who has the command line at hand.
      const action = problem.remedy?.command ?? '';
      return new ApiError(answer.status, problem.kind ?? 'unknown', problem.detail, action, problem.reason);
    }
  } catch {
    // No JSON: said below.
  }
  const what = `The array answered ${answer.status} ${answer.statusText}`.trim();
  return new ApiError(answer.status, 'unknown', `${what}.`, 'Try again; `ashlar events` may tell why.');
}

export function asError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new ApiError(0, 'unknown', message, 'Reload the page.');
}
