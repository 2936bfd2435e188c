// A menu of what can be done with one object. What may not be done now stays in it, with the reason. Rows of tables have
// but a plain button for it: one menu serves all, so that a thousand rows are no thousand menus.
import { useRef } from 'react';
import { Header, Menu, MenuItem, MenuSection, Popover, Text } from 'react-aria-components';
import { denied, type Operation } from '../state/rights';
import { Store, useStore } from '../state/store';
import { Icon } from './icons';

export interface Action {
  id: string;
  label: string;
  onAction: () => void;
  refusal?: string | false | null;
  /// The operation that it takes: without the right to it the action is refused.
  needs?: Operation;
  isDanger?: boolean;
}

interface OpenMenu {
  button: HTMLElement;
  of: string;
  actions: Action[];
}

const open = new Store<OpenMenu | null>(null);

interface ActionMenuProps {
  /// What the actions are for, as in `volume prod-data`.
  of: string;
  actions: () => Action[];
  children?: string;
}

export function ActionMenu({ of, actions, children }: ActionMenuProps) {
  const button = useRef<HTMLButtonElement>(null);
  const show = () => button.current && open.set({ button: button.current, of, actions: actions() });
  return (
    <button
      ref={button}
      type="button"
      className={children ? 'button' : 'button quiet only-icon'}
      aria-haspopup="menu"
      aria-label={children ? `${children}: actions for ${of}` : `Actions for ${of}`}
      onClick={show}
      onKeyDown={(event) => {
        // Before a click comes of it: React Aria takes a click without a pointer for a screen reader's, and would
        // leave the focus on the menu instead of its first item.
        if (!['ArrowDown', 'Enter', ' '].includes(event.key)) return;
        event.preventDefault();
        show();
      }}
    >
      {children ? (
        <>
          {children} <Icon name="down" />
        </>
      ) : (
        <Icon name="more" />
      )}
    </button>
  );
}

/// The menu that is open, if any. It stands in the page once.
export function MenuHost() {
  const now = useStore(open);
  const trigger = useRef<HTMLElement | null>(null);
  if (now) trigger.current = now.button;
  return (
    <Popover
      className="popover"
      placement="bottom end"
      triggerRef={trigger}
      isOpen={now !== null}
      onOpenChange={(isOpen) => !isOpen && open.set(null)}
    >
      {now && <Items menu={now} />}
    </Popover>
  );
}

function Items({ menu: { of, actions: asked } }: { menu: OpenMenu }) {
  const actions = asked.map((action) => ({ ...action, refusal: denied(action.needs) ?? action.refusal }));
  return (
    <Menu
      className="list-box"
      autoFocus="first"
      aria-label={`Actions for ${of}`}
      disabledKeys={actions.filter((action) => action.refusal).map((action) => action.id)}
      onAction={(key) => {
        open.set(null);
        // Two frames later the focus is at the button again, so a dialog that opens now gives it back there.
        const act = () => actions.find((action) => action.id === key)?.onAction();
        requestAnimationFrame(() => requestAnimationFrame(act));
      }}
    >
      <MenuSection>
        <Header className="menu-head">{of}</Header>
        {actions.map((action) => (
          <MenuItem
            key={action.id}
            id={action.id}
            textValue={action.label}
            className={action.isDanger ? 'option danger' : 'option'}
          >
            <Text slot="label">{action.label}</Text>
            {action.refusal && (
              <Text slot="description" className="option-note">
                {action.refusal}
              </Text>
            )}
          </MenuItem>
        ))}
      </MenuSection>
    </Menu>
  );
}
